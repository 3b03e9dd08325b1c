// TensorList: a function parameter that accepts one tensor, {a, b}, or any contiguous container of
// tensors.
#pragma once

#include <array>
#include <initializer_list>
#include <span>
#include <vector>

#include "tensor.h"

namespace mezzo {

/** A view of tensors for the duration of a call; do not store it. Constructors are not inline, as
 *  those of Shape. */
class MZ_API TensorList : public std::span<const Tensor> {
 public:
  TensorList() = default;
  TensorList(const Tensor& one);                   // NOLINT: conversion is the point
  TensorList(std::initializer_list<Tensor> list);  // NOLINT
  TensorList(const std::vector<Tensor>& list);     // NOLINT
  TensorList(std::span<const Tensor> list);        // NOLINT
  TensorList(std::span<Tensor> list);              // NOLINT
  template <std::size_t N>
  TensorList(const std::array<Tensor, N>& list) : TensorList(list.data(), N) {}  // NOLINT
  template <std::size_t N>
  TensorList(const Tensor (&list)[N]) : TensorList(list + 0, N) {}  // NOLINT

 private:
  TensorList(const Tensor* first, std::size_t count);
};

}  // namespace mezzo
