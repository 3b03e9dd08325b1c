// Golden calls: padding, blocks, resizing, sampling, diagonals, overwriting; ctc_loss and related
// ops.
#include "golden.h"

namespace {

using namespace golden;
using namespace mezzo;

void add_moves() {
  GOLDEN("pad", pad(x[0], {1, 2}));
  GOLDEN("pad/value, several dimensions", pad(x[0], {1, 0, 2, 1}, {.value = 1.5}));
  GOLDEN("pad/crop", pad(x[0], {-1, 2, 1, -1}));
  GOLDEN("pad/reflect", pad(x[0], {2, 1, 1, 3}, {.mode = PadMode::reflect}));
  GOLDEN("pad/replicate", pad(x[0], {2, 1, 0, 6}, {.mode = PadMode::replicate}));
  GOLDEN("pad/circular", pad(x[0], {3, 1, 4, 2}, {.mode = PadMode::circular}));
  GOLDEN("flip", flip(x[0], {0, -1}));
  GOLDEN("roll", roll(x[0], {2, -1}, {0, 1}));
  GOLDEN("roll/flat", roll(x[0], 14));
  GOLDEN("repeat", repeat(x[0], {2, 1, 3}));
  GOLDEN("tile", tile(x[0], {2, 3}));
  GOLDEN("repeat_interleave", repeat_interleave(x[0], 3, {.dim = 1}));
  GOLDEN("repeat_interleave/flat", repeat_interleave(x[0], 2));
  GOLDEN("repeat_interleave/tensor", repeat_interleave(x[0], x[1], {.dim = 0}));
  GOLDEN("diff", diff(x[0]));
  GOLDEN("diff/options", diff(x[0], {.n = 2, .dim = 0, .prepend = x[1], .append = x[2]}));
  GOLDEN("hstack", hstack({x[0], x[1]}));
  GOLDEN("hstack/vectors", hstack({x[0], x[1]}));
  GOLDEN("vstack", vstack({x[0], x[1]}));
  GOLDEN("unfold", unfold(x[0], {2, 3}));
  GOLDEN("unfold/options", unfold(x[0], 2, {.dilation = 2, .padding = 1, .stride = {2, 1}}));
  GOLDEN("fold", fold(x[0], {3, 4}, {2, 3}));
  GOLDEN("fold/options", fold(x[0], {5, 4}, 2, {.dilation = 2, .padding = 1, .stride = {2, 1}}));
  GOLDEN("pixel_shuffle", pixel_shuffle(x[0], 2));
  GOLDEN("pixel_unshuffle", pixel_unshuffle(x[0], 3));
  GOLDEN("diagonal", x[0].diagonal(1));
  GOLDEN("diagonal/outer dimensions", x[0].diagonal(-1, 2, 0));
  GOLDEN("windows", x[0].unfold(1, 3, 2));
  GOLDEN("tril", tril(x[0], 1));
  GOLDEN("triu", triu(x[0], -1));
  GOLDEN("diag", diag(x[0], -1));
  GOLDEN("diag/of a matrix", diag(x[0], 1));
  GOLDEN("trace", trace(x[0]));
  GOLDEN("one_hot", one_hot(x[0], 5));
}

using Mode = InterpolateMode;

#define GOLDEN_RESIZING(n, linear, ...)                                                           \
  GOLDEN("interpolate/nearest " #n, interpolate(x[0], {.size = __VA_ARGS__}));                    \
  GOLDEN("interpolate/nearest_exact " #n,                                                         \
         interpolate(x[0], {.size = __VA_ARGS__, .mode = Mode::nearest_exact}));                  \
  GOLDEN("interpolate/" #linear, interpolate(x[0], {.size = __VA_ARGS__, .mode = Mode::linear})); \
  GOLDEN("interpolate/" #linear ", corners",                                                      \
         interpolate(x[0], {.size = __VA_ARGS__, .mode = Mode::linear, .align_corners = true}))

void add_resizing() {
  GOLDEN_RESIZING(1, linear, {8});
  GOLDEN_RESIZING(2, bilinear, {6, 3});
  GOLDEN_RESIZING(3, trilinear, {5, 2, 7});
  GOLDEN("interpolate/bicubic", interpolate(x[0], {.size = {6, 3}, .mode = Mode::bicubic}));
  GOLDEN("interpolate/bicubic, corners",
         interpolate(x[0], {.size = {6, 3}, .mode = Mode::bicubic, .align_corners = true}));
  GOLDEN("interpolate/bilinear, antialias",
         interpolate(x[0], {.size = {3, 8}, .mode = Mode::bilinear, .antialias = true}));
  GOLDEN("interpolate/bicubic, antialias",
         interpolate(x[0], {.size = {3, 8}, .mode = Mode::bicubic, .antialias = true}));
  GOLDEN("interpolate/factor",
         interpolate(x[0], {.scale_factor = {1.7, 0.6}, .mode = Mode::bilinear}));
  GOLDEN("interpolate/factor of nearest", interpolate(x[0], {.scale_factor = {1.7, 0.6}}));
  GOLDEN("interpolate/factor, recomputed", interpolate(x[0], {.scale_factor = {1.7, 0.6},
                                                              .mode = Mode::bicubic,
                                                              .recompute_scale_factor = true}));
  GOLDEN("upsample_nearest", upsample_nearest(x[0], {.scale_factor = 2}));
  GOLDEN("upsample_nearest_exact", upsample_nearest_exact(x[0], {.scale_factor = 2}));
  GOLDEN("upsample_linear", upsample_linear(x[0], {.scale_factor = 2}));
  GOLDEN("upsample_bilinear", upsample_bilinear(x[0], {.scale_factor = 2}));
  GOLDEN("upsample_trilinear", upsample_trilinear(x[0], {.scale_factor = 2}));
  GOLDEN("upsample_bicubic", upsample_bicubic(x[0], {.scale_factor = 2}));
}

using Sampling = GridSampleMode;
using Around = GridSamplePadding;

#define GOLDEN_SAMPLING(name, sampling, around)                                 \
  GOLDEN_WITHIN("grid_sample/" name ", " #around, 4,                            \
                grid_sample(x[0], x[1], {Sampling::sampling, Around::around})); \
  GOLDEN_WITHIN("grid_sample/" name ", " #around ", corners", 4,                \
                grid_sample(x[0], x[1], {Sampling::sampling, Around::around, true}))

#define GOLDEN_SAMPLINGS(name, sampling)   \
  GOLDEN_SAMPLING(name, sampling, zeros);  \
  GOLDEN_SAMPLING(name, sampling, border); \
  GOLDEN_SAMPLING(name, sampling, reflection)

void add_sampling() {
  GOLDEN_SAMPLINGS("bilinear", bilinear);
  GOLDEN_SAMPLINGS("nearest", nearest);
  GOLDEN_SAMPLINGS("bicubic", bicubic);
  GOLDEN_SAMPLINGS("trilinear", bilinear);
  GOLDEN("affine_grid", affine_grid(x[0], {2, 1, 3, 4}));
  GOLDEN("affine_grid/corners", affine_grid(x[0], {1, 1, 2, 3, 4}, {.align_corners = true}));
}

void add_overwriting() {
  GOLDEN("index_copy", index_copy(x[0], 1, x[1], x[2]));
  GOLDEN_IN_PLACE("index_copy/in place", index_copy_(self, 0, x[1], x[2]));
  GOLDEN("index_fill", index_fill(x[0], 1, x[1], x[2]));
  GOLDEN("index_fill/number", index_fill(x[0], 0, x[1], 2.5));
  GOLDEN("masked_scatter", masked_scatter(x[0], x[1], x[2]));
  GOLDEN("unique", [&] {
    const UniqueResult r = unique(x[0], {.return_inverse = true, .return_counts = true});
    return Tensors{r.values, r.inverse, r.counts};
  }());
  GOLDEN("cummax", cummax(x[0], 1));
  GOLDEN("cummax/ties", cummax(x[0], 0));
  GOLDEN("cummin", cummin(x[0], 0));
  GOLDEN("median", median(x[0]));
  GOLDEN("median/one dimension", median(x[0], 0));
  GOLDEN("median/keepdim", median(x[0], 1, {.keepdim = true}));
  GOLDEN("median/nan", median(x[0]));
}

void add_sequences() {
  // PyTorch sums over alignments in the dtype of the scores.
  GOLDEN_WITHIN("ctc_loss/none", 10,
                ctc_loss(log_softmax(x[0], -1), x[1], x[2], x[3], {.reduction = reduction}));
  GOLDEN_WITHIN("ctc_loss/sum", 10,
                ctc_loss(log_softmax(x[0], -1), x[1], x[2], x[3], {.reduction = reduction}));
  GOLDEN_WITHIN("ctc_loss/mean", 10,
                ctc_loss(log_softmax(x[0], -1), x[1], x[2], x[3], {.reduction = reduction}));
  GOLDEN_WITHIN("ctc_loss/in a row, another blank", 10,
                ctc_loss(log_softmax(x[0], -1), x[1], x[2], x[3], {.blank = 3}));
  GOLDEN_WITHIN("ctc_loss/impossible, free", 10,
                ctc_loss(log_softmax(x[0], -1), x[1], x[2], x[3], {.zero_infinity = true}));
  GOLDEN("local_response_norm", local_response_norm(x[0], 3, {.alpha = 0.5, .beta = 0.6, .k = 2}));
  GOLDEN("local_response_norm/even", local_response_norm(x[0], 4));
}

void add_pooling() {
  GOLDEN("lp_pool1d", lp_pool1d(x[0], 3, 2));
  GOLDEN("lp_pool2d", lp_pool2d(x[0], 2, {2, 3}, {.stride = 1}));
  GOLDEN("lp_pool2d/ceil", lp_pool2d(x[0], 2, 2, {.ceil_mode = true}));
  GOLDEN("lp_pool3d", lp_pool3d(x[0], 2, 2));
  GOLDEN("max_unpool1d", [&] {
    const ValuesAndIndices y = max_pool1d_with_indices(x[0], 2);
    return max_unpool1d(y.values, y.indices, 2);
  }());
  GOLDEN("max_unpool2d", [&] {
    const ValuesAndIndices y = max_pool2d_with_indices(x[0], 3, {.stride = 2, .padding = 1});
    return max_unpool2d(y.values, y.indices, 3, {.stride = 2, .padding = 1, .output_size = {6, 5}});
  }());
  GOLDEN("max_unpool3d", [&] {
    const ValuesAndIndices y = max_pool3d_with_indices(x[0], 2);
    return max_unpool3d(y.values, y.indices, 2);
  }());
}

const Registrar additions([] {
  add_moves();
  add_resizing();
  add_sampling();
  add_overwriting();
  add_sequences();
  add_pooling();
});

}  // namespace
