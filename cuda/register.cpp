#include "register.h"

#include "attach.h"
#include "device.h"

namespace mezzo::gpu {

void register_cuda_kernels() {
  attach_activation();
  attach_adaptive_updates();
  attach_arg_reduce();
  attach_arithmetic();
  attach_attention();
  attach_attention_backward();
  attach_batch_norm();
  attach_classes();
  attach_compare();
  attach_conv();
  attach_copy();
  attach_cross();
  attach_cross_entropy();
  attach_ctc_loss();
  attach_deferred();
  attach_dot();
  attach_functions();
  attach_grid_sample();
  attach_group_norm();
  attach_index();
  attach_interpolate();
  attach_join();
  attach_layer_norm();
  attach_linear_chain();
  attach_lists();
  attach_loss_terms();
  attach_pair_distance();
  attach_placement();
  attach_places();
  attach_pool();
  attach_power();
  attach_product();
  attach_random();
  attach_recurrent();
  attach_recurrent_backward();
  attach_reduce();
  attach_renorm();
  attach_rounding();
  attach_running_extreme();
  attach_scan();
  attach_selection();
  attach_sgd_update();
  attach_softmax();
  attach_sort();
  attach_statistics();
  attach_triangle();
  attach_unfold();
  start_devices();
}

}  // namespace mezzo::gpu
