// SPDX-License-Identifier: Apache-2.0
// Windows of images as lines of a product: line m is the window of output pixel m of [images, OUT_D, OUT_H, OUT_W]; its depth
// counts taps (d, h, w), each with all channels. With RLX_VOLUMES 0 there is no D.
// Layout: x [images, C, D, H, W] with strides RLX_X_N, RLX_X_C, RLX_X_D, RLX_X_H, RLX_X_W, elements of RLX_OPERAND_BYTES. RLX_WINDOWS 1: channels are
//   neighbours and every pixel is whole aligned pieces of 16 bytes; 2: any strides, element by element.
// Specializations: window as in conv_window.h; RLX_CHANNELS; RLX_M lines, RLX_K = taps * channels; RLX_TILE_M, RLX_TILE_K.
#ifndef RLX_LIB_WINDOW_LINES_GLSL
#define RLX_LIB_WINDOW_LINES_GLSL

#ifndef RLX_VOLUMES
#define RLX_VOLUMES 0
#define RLX_X_D 0
#endif

// The first tap's pixel, which may lie in the pads, and its element 0.
struct WindowLine {
  RLX_INDEX at;
  int d;
  int h;
  int w;
};
RLX_FN WindowLine rlx_window_line(rlx_u32 line) {
  const rlx_u32 pixel = line % rlx_u32(RLX_OUT_D * RLX_OUT_H * RLX_OUT_W);
  const rlx_u32 image = line / rlx_u32(RLX_OUT_D * RLX_OUT_H * RLX_OUT_W);
  rlx_u32 row = pixel / rlx_u32(RLX_OUT_W);
  WindowLine result;
  result.d = 0;
#if RLX_VOLUMES
  result.d = int(row / rlx_u32(RLX_OUT_H)) * RLX_STRIDE_D - RLX_BEGIN_D;
  row %= rlx_u32(RLX_OUT_H);
#endif
  const int h = int(row) * RLX_STRIDE_H - RLX_BEGIN_H;
  const int w = int(pixel % rlx_u32(RLX_OUT_W)) * RLX_STRIDE_W - RLX_BEGIN_W;
  result.at = RLX_INDEX(image) * RLX_INDEX(RLX_X_N) + RLX_INDEX(result.d) * RLX_INDEX(RLX_X_D) + RLX_INDEX(h) * RLX_INDEX(RLX_X_H) +
              RLX_INDEX(w) * RLX_INDEX(RLX_X_W);
  // Of a line behind the last one, every tap lies below the image.
  const bool there = RLX_M % RLX_TILE_M == 0 || line < rlx_u32(RLX_M);
  result.h = there ? h : RLX_IN_H;
  result.w = w;
  return result;
}

// Element 0 of the pixel under a tap; not inside in the pads and behind the last tap.
struct WindowPixel {
  RLX_INDEX at;
  bool inside;
};
RLX_FN WindowPixel rlx_window_pixel(WindowLine line, rlx_u32 tap) {
  rlx_u32 tap_row = tap / rlx_u32(RLX_KERNEL_W);
  bool in_depth = true;
  RLX_INDEX at = line.at;
#if RLX_VOLUMES
  const int tap_d = int(tap_row / rlx_u32(RLX_KERNEL_H)) * RLX_DILATION_D;
  tap_row %= rlx_u32(RLX_KERNEL_H);
  in_depth = rlx_u32(line.d + tap_d) < rlx_u32(RLX_IN_D);
  at += RLX_INDEX(tap_d) * RLX_INDEX(RLX_X_D);
#endif
  const int tap_h = int(tap_row) * RLX_DILATION_H;
  const int tap_w = int(tap % rlx_u32(RLX_KERNEL_W)) * RLX_DILATION_W;
  const bool in_rows = rlx_u32(line.h + tap_h) < rlx_u32(RLX_IN_H);
  const bool in_columns = rlx_u32(line.w + tap_w) < rlx_u32(RLX_IN_W);
  const bool is_tap = RLX_K % RLX_TILE_K == 0 || tap < rlx_u32(RLX_KERNEL_D * RLX_KERNEL_H * RLX_KERNEL_W);
  WindowPixel pixel;
  pixel.at = at + RLX_INDEX(tap_h) * RLX_INDEX(RLX_X_H) + RLX_INDEX(tap_w) * RLX_INDEX(RLX_X_W);
  pixel.inside = in_depth && in_rows && in_columns && is_tap;
  return pixel;
}

// 16 bytes of neighbours, RLX_UNIT elements, of a line from depth `panel + first` on; zeros in the pads and behind the last depth. Panels
// begin at multiples of RLX_TILE_K. Without branches, so that loops around it are unrolled.
RLX_FN rlx_uvec4 rlx_load_window_unit(rlx_ptr x, WindowLine line, rlx_u32 panel, rlx_u32 first) {
#if RLX_WINDOWS == 1
#if RLX_CHANNELS % RLX_TILE_K == 0  // all of a panel belongs to one tap
  const rlx_u32 tap = panel / rlx_u32(RLX_CHANNELS);
  const rlx_u32 channel = panel % rlx_u32(RLX_CHANNELS) + first;
#else
  const rlx_u32 tap = (panel + first) / rlx_u32(RLX_CHANNELS);
  const rlx_u32 channel = (panel + first) % rlx_u32(RLX_CHANNELS);
#endif
  const WindowPixel pixel = rlx_window_pixel(line, tap);
  const RLX_INDEX place = pixel.at + RLX_INDEX(channel);
  const rlx_u32 kept = pixel.inside ? 0xFFFFFFFFu : 0u;
  const rlx_i64 at = rlx_i64(place & RLX_INDEX(rlx_i32(kept)));  // a choice of two addresses may become a branch around the load
  return rlx_operand16(x, at * RLX_OPERAND_BYTES) & rlx_uvec4(kept);
#else
  rlx_uvec4 unit = rlx_uvec4(0u);
  RLX_UNROLL for (rlx_u32 e = 0u; e < rlx_u32(RLX_UNIT); ++e) {
    const rlx_u32 depth = panel + first + e;
    const WindowPixel pixel = rlx_window_pixel(line, depth / rlx_u32(RLX_CHANNELS));
    const RLX_INDEX place = pixel.at + RLX_INDEX(depth % rlx_u32(RLX_CHANNELS)) * RLX_INDEX(RLX_X_C);
    const rlx_i64 at = pixel.inside ? rlx_i64(place) : rlx_i64(0);
#if RLX_OPERAND_BYTES == 4
    const rlx_u32 bits = rlx_load_u32(x, at);
    unit[e] = pixel.inside ? bits : 0u;
#else
    const rlx_u32 bits = rlx_load_u16(x, at);
    unit[e / 2u] |= (pixel.inside ? bits : 0u) << (e % 2u * 16u);
#endif
  }
  return unit;
#endif
}

#endif
