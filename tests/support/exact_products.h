// Products of bf16 operands in f32 arithmetic, or by the CPU's own instructions, for a scope.
#pragma once

#include <mezzo.h>

class ExactProducts {
 public:
  explicit ExactProducts(bool on) : before_(mezzo::exact_products()) {
    mezzo::set_exact_products(on);
  }
  ~ExactProducts() { mezzo::set_exact_products(before_); }
  ExactProducts(const ExactProducts&) = delete;
  ExactProducts& operator=(const ExactProducts&) = delete;

 private:
  bool before_;
};
