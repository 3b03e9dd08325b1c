// Conditions for running several layers as one fused op with bitwise the same result. Private to
// nn/.
#pragma once

namespace mezzo::nn::detail {

/** Returns true if fusing linear and relu into mlp is unobservable: no trace is active, and the
 *  user has not overridden the precision tag of one of these ops. */
bool mlp_may_fuse();
/** Returns true if fusing batch_norm, add and relu is unobservable, under the same conditions. */
bool batch_norm_relu_may_fuse();
/** Returns true if fusing add and layer_norm is unobservable, under the same conditions, for
 *  operands that casts leave as they are. */
bool add_layer_norm_may_fuse();
/** Returns true if dividing a projection into heads within attention is unobservable, under the
 *  conditions of mlp_may_fuse(). */
bool self_attention_may_fuse();

}  // namespace mezzo::nn::detail
