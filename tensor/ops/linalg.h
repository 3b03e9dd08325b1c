// Ops on matrices: solutions of linear equations, inverses, determinants, factorisations.
#pragma once

#include <optional>

#include "../core/op.h"

namespace mezzo::op {

// A matrix is the last two dimensions of a tensor. All ops take f32 and f64 only.

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
