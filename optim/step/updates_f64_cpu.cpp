// The optimizer updates of f64 parameters on the CPU.
#include "update_chunk_cpu.h"

namespace mezzo::optim {

#define MZ_UPDATE_F64(Update)                                                   \
  void update_f64(std::type_identity<Update>, const TensorListEntry& item,      \
                  const blocks::Chunk& chunk, const Update::Settings& settings, \
                  const UpdateCall& call) {                                     \
    blocks::update_in<Update, double>(item, chunk, settings, call);             \
  }
MZ_FOR_EACH_UPDATE(MZ_UPDATE_F64)
#undef MZ_UPDATE_F64

}  // namespace mezzo::optim
