// SPDX-License-Identifier: Apache-2.0
// Element offsets of the channel planes of y, and of a residual, [images, channels, pixels] with dense pixels.
// Before: RLX_PIXELS, RLX_PLANES (of an image). Specializations: RLX_Y_N, RLX_Y_C: elements from image to image and from channel to
//   channel; absent where y is dense. RLX_RESIDUAL_IMAGE, RLX_RESIDUAL_PLANE likewise.

#ifndef RLX_Y_N
#define RLX_Y_N (rlx_i64(RLX_PLANES) * rlx_i64(RLX_PIXELS))
#define RLX_Y_C (RLX_PIXELS)
#endif
#ifndef RLX_RESIDUAL_IMAGE
#define RLX_RESIDUAL_IMAGE (rlx_i64(RLX_PLANES) * rlx_i64(RLX_PIXELS))
#define RLX_RESIDUAL_PLANE (RLX_PIXELS)
#endif

#define rlx_y_plane(image, channel) (rlx_i64(image) * rlx_i64(RLX_Y_N) + rlx_i64(channel) * rlx_i64(RLX_Y_C))
#define rlx_residual_plane(image, channel) (rlx_i64(image) * rlx_i64(RLX_RESIDUAL_IMAGE) + rlx_i64(channel) * rlx_i64(RLX_RESIDUAL_PLANE))
