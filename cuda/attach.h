// The functions that attach kernels to rows, one per file of kernels.
// Sees: nothing.
// Read next: register.cpp (which calls them), kernels/*.cu (which define them).
#pragma once

namespace mezzo::gpu {

void attach_activation();
void attach_adaptive_updates();
void attach_arg_reduce();
void attach_arithmetic();
void attach_compare();
void attach_conv();
void attach_copy();
void attach_cross_entropy();
void attach_deferred();
void attach_functions();
void attach_layer_norm();
void attach_lists();
void attach_loss_terms();
void attach_power();
void attach_product();
void attach_random();
void attach_reduce();
void attach_rounding();
void attach_selection();
void attach_sgd_update();
void attach_softmax();
void attach_statistics();

}  // namespace mezzo::gpu
