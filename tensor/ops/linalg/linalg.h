// Linear algebra: solutions, inverses, determinants, and factorisations of matrices. ops.h
// explains the notation and the precision tags.
//
// A matrix is the last two dimensions of a tensor; * stands for the dimensions before them, which
// number the matrices of a batch. Everything is computed in f32 (f64), on the CPU: operands on a
// GPU are copied there and back, which one line of the log says for each op, and which a captured
// step refuses. Batches run in parallel; results do not depend on the number of threads.
//
// Errors of all functions: ShapeError for less than two dimensions; DtypeError unless the dtype is
// f32 or f64 (autocast casts f16 and bf16 to f32); ValueError for a matrix that holds nan or
// infinity. Right-hand sides and incoming gradients may hold them.
#pragma once

#include <optional>

#include "../../core/op.h"
#include "../../core/tensor.h"
#include "../distance/distance.h"

namespace mezzo::linalg {

/** Options of cholesky. */
struct CholeskyOptions {
  bool upper = false;  // return U with x = U^T U instead of L
};

/** Returns the lower triangular L with x = L L^T, of symmetric positive definite matrices. Only the
 *  lower triangle of x is read.
 *  Shape: x [*,n,n], kept.
 *  Precision: f32.
 *  Gradient: L^-T P L^-1 made symmetric, with P the lower triangle of L^T g, its diagonal halved.
 *  Errors: ValueError if a matrix is not positive definite; ShapeError unless matrices are square.
 *  Source: Murray, Differentiation of the Cholesky decomposition (2016). */
MZ_API Tensor cholesky(const Tensor& x, const CholeskyOptions& options = {});

/** Returns the determinant. That of a 0 by 0 matrix is 1.
 *  Shape: x [*,n,n] gives [*].
 *  Precision: f32.
 *  Gradient: g times the cofactors, also at singular matrices. The second derivative is refused
 *  there.
 *  Errors: ShapeError unless matrices are square. */
MZ_API Tensor det(const Tensor& x);

/** Options of eigh and eigvalsh. */
struct EighOptions {
  char UPLO = 'L';  // the triangle of x that is read: 'L' or 'U'
};

/** The eigenvalues [*,n], ascending, and orthonormal eigenvectors as columns [*,n,n]. */
struct EighResult {
  Tensor eigenvalues,  // L
      eigenvectors;    // V, with x = V diag(L) V^T
};

/** Returns eigenvalues and eigenvectors of symmetric matrices. The sign of an eigenvector is
 *  arbitrary, and so are the vectors of a repeated eigenvalue.
 *  Shape: x [*,n,n].
 *  Precision: f32.
 *  Gradient: V (M / E + diag(gL)) V^T, which is symmetric, with E_ij = L_j - L_i and M the skew
 *  part of V^T gV.
 *  Errors: ShapeError unless matrices are square; ValueError for another UPLO. In backward:
 *  ValueError if the eigenvectors have a gradient and two eigenvalues are equal to rounding.
 *  Source: Giles, An extended collection of matrix derivative results (2008). */
MZ_API EighResult eigh(const Tensor& x, const EighOptions& options = {});

/** Returns the eigenvalues of eigh, whose gradient is defined for equal ones too. */
MZ_API Tensor eigvalsh(const Tensor& x, const EighOptions& options = {});

/** Returns the inverse. To multiply by it, solve() is faster and more precise.
 *  Shape: x [*,n,n], kept.
 *  Precision: f32.
 *  Gradient: -y^T g y^T.
 *  Errors: ValueError for a matrix that is singular to rounding; ShapeError unless matrices are
 *  square. */
MZ_API Tensor inv(const Tensor& x);

using mezzo::matrix_norm;  // distance.h

/** Options of pinv. Singular values up to max(atol, rtol * the largest one) count as zero. */
struct PinvOptions {
  std::optional<double> rtol = {};  // default: max(m,n) * epsilon of the dtype; 0 if atol is given
  std::optional<double> atol = {};  // default: 0
};

/** Returns the Moore-Penrose inverse, which also matrices have that are not square or singular.
 *  Shape: x [*,m,n] gives [*,n,m].
 *  Precision: f32.
 *  Gradient: the derivative while the rank stays the same.
 *  Errors: ValueError for a negative tolerance.
 *  Source: Golub, Pereyra, The differentiation of pseudo-inverses (1973). */
MZ_API Tensor pinv(const Tensor& x, const PinvOptions& options = {});

/** The sizes of Q and R, with k = min(m,n). */
enum class QrMode : std::uint8_t {
  reduced,   // Q [*,m,k] and R [*,k,n]
  complete,  // Q [*,m,m] and R [*,m,n]
};

/** Options of qr. */
struct QrOptions {
  QrMode mode = QrMode::reduced;  // the sizes of the results
};

/** Q with orthonormal columns, and the upper triangular R. */
struct QrResult {
  Tensor Q,  // [*,m,k]
      R;     // [*,k,n]; elements of its diagonal may be negative
};

/** Returns Q and R with x = Q R, by Householder reflections.
 *  Shape: x [*,m,n]; QrMode names those of the results.
 *  Precision: f32.
 *  Gradient: (gQ + Q S) R^-T, with S the symmetric matrix whose upper triangle is that of gR R^T -
 *  Q^T gQ; for m < n of the first m columns, and Q gR of the others.
 *  Errors: in backward, ValueError if the first k columns are linearly dependent to rounding, and
 *  Unsupported for complete matrices Q with m > n.
 *  Source: Walter, Lehmann, Lamour, On evaluating higher-order derivatives of the QR decomposition
 *  (2012). */
MZ_API QrResult qr(const Tensor& x, const QrOptions& options = {});

/** The determinant as sign * exp(logabsdet). */
struct SlogdetResult {
  Tensor sign,    // [*]: -1, 0 or 1; no gradient
      logabsdet;  // [*]: -infinity if the matrix is singular
};

/** Returns sign and logarithm of the absolute value of the determinant, which do not overflow.
 *  Shape: x [*,n,n] gives [*].
 *  Precision: f32.
 *  Gradient: g times the transposed inverse.
 *  Errors: ShapeError unless matrices are square. In backward: ValueError for a matrix that is
 *  singular to rounding. */
MZ_API SlogdetResult slogdet(const Tensor& x);

/** Returns X with A X = B.
 *  Shape: A [*,n,n]; B [*,n,k], or vectors: [n], or [*,n] with the * of A. Batches broadcast. The
 *  result has the broadcast batch and the last dimensions of B.
 *  Precision: f32.
 *  Gradient: A^-T g for B, and the negative product of that with X^T for A.
 *  Errors: ValueError for a matrix A that is singular to rounding; ShapeError; DtypeError if the
 *  dtypes differ. */
MZ_API Tensor solve(const Tensor& A, const Tensor& B);

/** Options of svd. */
struct SvdOptions {
  bool full_matrices = true;  // square U and Vh; false: U [*,m,k] and Vh [*,k,n]
};

/** Singular value decomposition: x = U diag(S) Vh, with k = min(m,n). */
struct SvdResult {
  Tensor U,  // [*,m,m]: left singular vectors as columns
      S,     // [*,k]: singular values, descending
      Vh;    // [*,n,n]: right singular vectors as rows
};

/** Returns singular values and vectors. The common sign of a pair of vectors is arbitrary, and so
 *  are the vectors of a repeated singular value and those beyond k.
 *  Shape: x [*,m,n].
 *  Precision: f32.
 *  Gradient: PyTorch's. With full_matrices = false it is the same and takes less time.
 *  Errors in backward, if U or Vh have a gradient: ValueError if two singular values are equal to
 *  rounding, if one is zero and m and n differ, or for a gradient of the vectors beyond k.
 *  Source: Townsend, Differentiating the singular value decomposition (2016). */
MZ_API SvdResult svd(const Tensor& x, const SvdOptions& options = {});

/** Returns the singular values S of svd, whose gradient is defined for equal ones too. */
MZ_API Tensor svdvals(const Tensor& x);

}  // namespace mezzo::linalg

namespace mezzo::op {

/** X with A X = B. */
struct Solve {
  static constexpr OpTraits traits{.name = "solve",
                                   .precision = Precision::f32,
                                   .summary = "solution of linear equations",
                                   .inputs = 2};
  using Attrs = NoAttrs;
  static std::vector<Tensor> composite(Inputs in, const Attrs& attrs);
};

/** Solve for [*,n,n] and [*,n,k] of the same batch. */
struct SolveMatrices {
  static constexpr OpTraits traits{.name = "solve_matrices",
                                   .precision = Precision::f32,
                                   .inputs = 2,
                                   .needs = {input(0) | output(0), input(0)},
                                   .internal = true};
  using Attrs = NoAttrs;
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

/** Solve for triangular matrices, of which only one triangle is read. */
struct SolveTriangular {
  static constexpr OpTraits traits{.name = "solve_triangular",
                                   .precision = Precision::f32,
                                   .inputs = 2,
                                   .needs = {input(0) | output(0), input(0)},
                                   .internal = true};
  struct Attrs {
    bool upper = false;
  };
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

struct Inv {
  static constexpr OpTraits traits{.name = "inv",
                                   .precision = Precision::f32,
                                   .summary = "inverse of a matrix",
                                   .needs = {output(0)}};
  using Attrs = NoAttrs;
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

struct Det {
  static constexpr OpTraits traits{
      .name = "det", .precision = Precision::f32, .summary = "determinant", .needs = {input(0)}};
  using Attrs = NoAttrs;
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

/** The matrix of cofactors, which is the derivative of the determinant. */
struct Cofactors {
  static constexpr OpTraits traits{.name = "cofactors",
                                   .precision = Precision::f32,
                                   .needs = {input(0) | output(0)},
                                   .internal = true};
  using Attrs = NoAttrs;
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

struct Slogdet {
  static constexpr OpTraits traits{
      .name = "slogdet",
      .precision = Precision::f32,
      .summary = "sign and logarithm of the absolute value of the determinant",
      .outputs = 2,
      .needs = {input(0)}};
  using Attrs = NoAttrs;
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

struct Cholesky {
  static constexpr OpTraits traits{.name = "cholesky",
                                   .precision = Precision::f32,
                                   .summary = "triangular L with x = L L^T",
                                   .needs = {output(0)}};
  struct Attrs {
    bool upper = false;
  };
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

struct Qr {
  static constexpr OpTraits traits{.name = "qr",
                                   .precision = Precision::f32,
                                   .summary = "orthogonal Q and triangular R with x = Q R",
                                   .outputs = 2,
                                   .needs = {output(0) | output(1)}};
  struct Attrs {
    bool complete = false;
  };
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

struct Eigh {
  static constexpr OpTraits traits{.name = "eigh",
                                   .precision = Precision::f32,
                                   .summary = "eigenvalues and eigenvectors of a symmetric matrix",
                                   .outputs = 2,
                                   .needs = {output(0) | output(1)}};
  struct Attrs {
    char uplo = 'L';
  };
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

struct Eigvalsh {
  static constexpr OpTraits traits{.name = "eigvalsh",
                                   .precision = Precision::f32,
                                   .summary = "eigenvalues of a symmetric matrix"};
  using Attrs = Eigh::Attrs;
  static std::vector<Tensor> composite(Inputs in, const Attrs& attrs);
};

struct Svd {
  static constexpr OpTraits traits{.name = "svd",
                                   .precision = Precision::f32,
                                   .summary = "singular values and vectors",
                                   .outputs = 3,
                                   .needs = {output(0) | output(1) | output(2)}};
  struct Attrs {
    bool full_matrices = true;
  };
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

struct Svdvals {
  static constexpr OpTraits traits{
      .name = "svdvals", .precision = Precision::f32, .summary = "singular values"};
  using Attrs = NoAttrs;
  static std::vector<Tensor> composite(Inputs in, const Attrs& attrs);
};

struct Pinv {
  static constexpr OpTraits traits{.name = "pinv",
                                   .precision = Precision::f32,
                                   .summary = "Moore-Penrose inverse",
                                   .needs = {input(0) | output(0)}};
  struct Attrs {
    std::optional<double> rtol = {};
    std::optional<double> atol = {};
  };
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

/** Checks an operand: at least two dimensions, f32 or f64. Errors: ShapeError, DtypeError. */
void require_matrices(const char* op, const Tensor& x);
/** Checks an operand: as require_matrices, and ShapeError unless the matrices are square. */
void require_square(const char* op, const Tensor& x);

/** The ops with a kernel. */
using LinalgKernelOps = type_list<Cholesky, Cofactors, Det, Eigh, Inv, Pinv, Qr, Slogdet,
                                  SolveMatrices, SolveTriangular, Svd>;
/** All ops, those made of others at the end. */
using LinalgOps = type_list<Cholesky, Cofactors, Det, Eigh, Inv, Pinv, Qr, Slogdet, SolveMatrices,
                            SolveTriangular, Svd, Eigvalsh, Solve, Svdvals>;

}  // namespace mezzo::op
