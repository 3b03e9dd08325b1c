// TileModel: computes products by tiles in a scope by the model of the CPU's instructions.
#pragma once

#include "../../tensor/device/cpu_isa.h"

/** Sets models_tiles() and restores it. */
class TileModel {
 public:
  explicit TileModel(bool on) : before_(mezzo::models_tiles()) { mezzo::set_models_tiles(on); }
  TileModel(const TileModel&) = delete;
  TileModel& operator=(const TileModel&) = delete;
  ~TileModel() { mezzo::set_models_tiles(before_); }

 private:
  bool before_;
};

/** Returns whether the kernels in use have products by tiles. */
inline bool has_tiles() { return mezzo::cpu_isa() >= mezzo::CpuIsa::v4_bf16; }
/** Returns whether the CPU computes them. */
inline bool has_tile_unit() { return mezzo::cpu_isa() == mezzo::CpuIsa::v4_amx; }
