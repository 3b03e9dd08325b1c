// TensorList: how a function takes any number of tensors: one, {a, b}, or whatever holds them in a row.
// Sees: tensor.h.
// Read next: ../autograd/engine.h (its users).
#pragma once

#include <array>
#include <initializer_list>
#include <span>
#include <vector>

#include "tensor.h"

namespace mezzo {

/** Refers to tensors for the length of a call; never keep one. */
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
