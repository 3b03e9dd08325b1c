// The functions that attach kernels to rows, one per file of kernels.
// Sees: nothing.
// Read next: register.cpp (which calls them), kernels/*.cu (which define them).
#pragma once

namespace mezzo::gpu {

void attach_activation();
void attach_adaptive_updates();
void attach_arg_reduce();
void attach_arithmetic();
void attach_attention();
void attach_attention_backward();
void attach_batch_norm();
void attach_classes();
void attach_compare();
void attach_conv();
void attach_copy();
void attach_cross();
void attach_cross_entropy();
void attach_ctc_loss();
void attach_deferred();
void attach_dot();
void attach_functions();
void attach_grid_sample();
void attach_group_norm();
void attach_index();
void attach_interpolate();
void attach_join();
void attach_layer_norm();
void attach_linear_chain();
void attach_lists();
void attach_loss_terms();
void attach_pair_distance();
void attach_placement();
void attach_places();
void attach_pool();
void attach_power();
void attach_product();
void attach_random();
void attach_recurrent();
void attach_recurrent_backward();
void attach_reduce();
void attach_renorm();
void attach_rounding();
void attach_running_extreme();
void attach_scan();
void attach_selection();
void attach_sgd_update();
void attach_softmax();
void attach_sort();
void attach_statistics();
void attach_triangle();
void attach_unfold();

}  // namespace mezzo::gpu
