#include "register.h"

#include "attach.h"
#include "device.h"

namespace mezzo::gpu {

void register_cuda_kernels() {
  attach_activation();
  attach_adaptive_updates();
  attach_arg_reduce();
  attach_arithmetic();
  attach_compare();
  attach_conv();
  attach_copy();
  attach_cross_entropy();
  attach_deferred();
  attach_functions();
  attach_layer_norm();
  attach_lists();
  attach_loss_terms();
  attach_power();
  attach_product();
  attach_random();
  attach_reduce();
  attach_rounding();
  attach_selection();
  attach_sgd_update();
  attach_softmax();
  attach_statistics();
  start_devices();
}

}  // namespace mezzo::gpu
