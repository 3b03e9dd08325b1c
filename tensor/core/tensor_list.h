// TensorList: a function parameter that accepts one tensor, {a, b}, or any contiguous container of
// tensors.
#pragma once

#include <array>
#include <initializer_list>
#include <span>
#include <vector>

#include "tensor.h"

namespace mezzo {

/** A view of tensors for the duration of a call; do not store it. */
class TensorList : public std::span<const Tensor> {
 public:
  TensorList() = default;
  TensorList(const Tensor& one) : span(&one, 1) {}  // NOLINT: conversion is the point
  TensorList(std::initializer_list<Tensor> list) : span(std::data(list), list.size()) {}  // NOLINT
  TensorList(const std::vector<Tensor>& list) : span(list) {}                             // NOLINT
  TensorList(std::span<const Tensor> list) : span(list) {}                                // NOLINT
  TensorList(std::span<Tensor> list) : span(list) {}                                      // NOLINT
  template <std::size_t N> TensorList(const std::array<Tensor, N>& list) : span(list) {}  // NOLINT
  template <std::size_t N> TensorList(const Tensor (&list)[N]) : span(list) {}            // NOLINT
};

}  // namespace mezzo
