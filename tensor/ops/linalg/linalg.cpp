// Shape rules and public functions of the ops in linalg.h.
#include "linalg.h"

#include <algorithm>

#include "../../core/dispatch.h"
#include "../../core/registry.h"
#include "../../text/text.h"
#include "../require.h"

namespace mezzo::op {

namespace {

/** Returns the dimensions of x before its matrices, followed by `last`. */
Shape batch_with(const Tensor& x, std::initializer_list<std::int64_t> last) {
  Shape shape = x.shape();
  shape.erase(shape.rank() - 1);
  shape.erase(shape.rank() - 1);
  for (const std::int64_t size : last) shape.push_back(size);
  return shape;
}

/** Checks the operands of A X = B: square A, and B with the same batch and rows. */
OutSpecs solution(const char* op, Inputs in) {
  require_defined(op, in[1]);
  require_one_floating_dtype(op, in);
  require_square(op, in[0]);
  require_matrices(op, in[1]);
  const std::int64_t rows = in[0].size(-1), columns = in[1].size(-1);
  if (!(batch_with(in[0], {rows, columns}) == in[1].shape()))
    fail<ShapeError>(op, {.what = "the matrices have different numbers of rows",
                          .got = str(in),
                          .expected = "A [*,n,n] and B [*,n,k]"});
  return {{in[1].shape(), in[1].dtype()}};
}

OutSpecs same_square(const char* op, const Tensor& x) {
  require_square(op, x);
  return {{x.shape(), x.dtype()}};
}

void require_tolerance(const char* name, std::optional<double> value) {
  if (value && !(*value >= 0))
    fail<ValueError>("pinv", {.what = str(name, " is negative or nan"),
                              .got = str(*value, ""),
                              .expected = "at least 0"});
}

}  // namespace

void require_matrices(const char* op, const Tensor& x) {
  if (!is_floating(x.dtype()) || is_low(x.dtype()))
    fail<DtypeError>(op, {.what = str("not defined for ", x.dtype()),
                          .got = str(x),
                          .expected = "f32 or f64",
                          .hint = "use x.to(f32)"});
  if (x.dim() < 2)
    fail<ShapeError>(op,
                     {.what = "not a matrix", .got = str(x), .expected = "at least 2 dimensions"});
}

void require_square(const char* op, const Tensor& x) {
  require_matrices(op, x);
  if (x.size(-1) != x.size(-2))
    fail<ShapeError>(op, {.what = "the matrix is not square",
                          .got = str(x),
                          .expected = "last two dimensions of one size"});
}

OutSpecs SolveMatrices::infer(Inputs in, const Attrs&) { return solution("solve", in); }
OutSpecs SolveTriangular::infer(Inputs in, const Attrs&) {
  return solution("solve_triangular", in);
}
OutSpecs Inv::infer(Inputs in, const Attrs&) { return same_square("inv", in[0]); }
OutSpecs Cofactors::infer(Inputs in, const Attrs&) { return same_square("det", in[0]); }
OutSpecs Cholesky::infer(Inputs in, const Attrs&) { return same_square("cholesky", in[0]); }

OutSpecs Det::infer(Inputs in, const Attrs&) {
  require_square("det", in[0]);
  return {{batch_with(in[0], {}), in[0].dtype()}};
}

OutSpecs Slogdet::infer(Inputs in, const Attrs&) {
  require_square("slogdet", in[0]);
  const OutSpec one{batch_with(in[0], {}), in[0].dtype()};
  return {one, one};
}

OutSpecs Qr::infer(Inputs in, const Attrs& attrs) {
  require_matrices("qr", in[0]);
  const std::int64_t m = in[0].size(-2), n = in[0].size(-1),
                     k = attrs.complete ? m : std::min(m, n);
  return {{batch_with(in[0], {m, k}), in[0].dtype()}, {batch_with(in[0], {k, n}), in[0].dtype()}};
}

OutSpecs Eigh::infer(Inputs in, const Attrs& attrs) {
  require_square("eigh", in[0]);
  if (attrs.uplo != 'L' && attrs.uplo != 'U')
    fail<ValueError>(
        "eigh",
        {.what = "unknown UPLO", .got = str("'", attrs.uplo, "'"), .expected = "'L' or 'U'"});
  return {{batch_with(in[0], {in[0].size(-1)}), in[0].dtype()}, {in[0].shape(), in[0].dtype()}};
}

OutSpecs Svd::infer(Inputs in, const Attrs& attrs) {
  require_matrices("svd", in[0]);
  const std::int64_t m = in[0].size(-2), n = in[0].size(-1), k = std::min(m, n);
  const DType dtype = in[0].dtype();
  return {{batch_with(in[0], {m, attrs.full_matrices ? m : k}), dtype},
          {batch_with(in[0], {k}), dtype},
          {batch_with(in[0], {attrs.full_matrices ? n : k, n}), dtype}};
}

OutSpecs Pinv::infer(Inputs in, const Attrs& attrs) {
  require_matrices("pinv", in[0]);
  require_tolerance("rtol", attrs.rtol);
  require_tolerance("atol", attrs.atol);
  return {{batch_with(in[0], {in[0].size(-1), in[0].size(-2)}), in[0].dtype()}};
}

std::span<OpInfo* const> linalg_ops() { return infos_of(LinalgOps{}); }

}  // namespace mezzo::op

namespace mezzo::linalg {

Tensor cholesky(const Tensor& x, const CholeskyOptions& options) {
  return apply_with<op::Cholesky>({options.upper}, x);
}

Tensor det(const Tensor& x) { return apply<op::Det>(x); }

EighResult eigh(const Tensor& x, const EighOptions& options) {
  auto [values, vectors] = apply_all<op::Eigh>({options.UPLO}, x);
  return {std::move(values), std::move(vectors)};
}

Tensor eigvalsh(const Tensor& x, const EighOptions& options) {
  return apply_with<op::Eigvalsh>({options.UPLO}, x);
}

Tensor inv(const Tensor& x) { return apply<op::Inv>(x); }

Tensor pinv(const Tensor& x, const PinvOptions& options) {
  return apply_with<op::Pinv>({options.rtol, options.atol}, x);
}

QrResult qr(const Tensor& x, const QrOptions& options) {
  auto [q, r] = apply_all<op::Qr>({options.mode == QrMode::complete}, x);
  return {std::move(q), std::move(r)};
}

SlogdetResult slogdet(const Tensor& x) {
  auto [sign, logabsdet] = apply_all<op::Slogdet>({}, x);
  return {sign.detach(), std::move(logabsdet)};
}

Tensor solve(const Tensor& A, const Tensor& B) { return apply<op::Solve>(A, B); }

SvdResult svd(const Tensor& x, const SvdOptions& options) {
  auto [u, s, vh] = apply_all<op::Svd>({options.full_matrices}, x);
  return {std::move(u), std::move(s), std::move(vh)};
}

Tensor svdvals(const Tensor& x) { return apply<op::Svdvals>(x); }

}  // namespace mezzo::linalg
