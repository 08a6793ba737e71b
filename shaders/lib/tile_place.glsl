// SPDX-License-Identifier: Apache-2.0
// The order in which workgroups take the tiles of a product.
#ifndef RLX_LIB_TILE_PLACE_GLSL
#define RLX_LIB_TILE_PLACE_GLSL

// Number of a tile in a grid of tiles_m x tiles_n, in bands of 8 tile rows: tiles that run together share panels in the cache.
struct TilePlace {
  rlx_u32 m;
  rlx_u32 n;
};
RLX_FN TilePlace rlx_tile_place(rlx_u32 tile, rlx_u32 tiles_m, rlx_u32 tiles_n) {
  const rlx_u32 band = tile / (8u * tiles_n);
  const rlx_u32 rows = min(8u, tiles_m - band * 8u);
  const rlx_u32 within = tile - band * 8u * tiles_n;
  TilePlace place;
  place.m = band * 8u + within % rows;
  place.n = within / rows;
  return place;
}

#endif
