// The formulas of Muon: the direction that is made orthogonal, and the step along the result.
// optim/muon.cpp runs them and orthogonalises between them. Parsed by g++ and by nvcc.
#pragma once

#include "../muon.h"
#include "update.h"

namespace mezzo::optim {

/** Settings of MuonDirectionUpdate and MuonUpdate, and of what is between them. */
struct MuonSettings : SettingsOf<MuonOptions> {
  double rate = 1;  // factor of lr in the step: of adjust_lr_fn and the size of the matrix

  bool operator==(const MuonSettings&) const = default;
};

/** The momentum of Muon: a running mean of gradients, and a look ahead with nesterov. */
template <class V> struct MuonMomentum {
  V momentum, fresh;

  MZ_HD explicit MuonMomentum(const MuonSettings& s)
      : momentum(static_cast<V>(s.momentum)), fresh(static_cast<V>(1 - s.momentum)) {}

  /** Returns the mean after gradient g. */
  MZ_HD V mean(V g, V buffer) const { return momentum * buffer + fresh * g; }
};

/** Computes the direction u from the gradient and the mean so far. Changes nothing else, so that a
 *  step may still fail. */
struct MZ_API MuonDirectionUpdate {
  static constexpr std::string_view name = "muon_direction";
  static constexpr std::size_t kStates = 2;  // mean of the gradient, u
  static constexpr unsigned kWrites = 1u << (kState + 1), kUnread = kWrites | 1u << kParam;
  using Settings = MuonSettings;

  static constexpr unsigned kModes = 2;
  static unsigned mode(const Settings& s) { return s.nesterov ? 1 : 0; }

  template <class V, unsigned kMode> struct Formula : MuonMomentum<V> {
    using MuonMomentum<V>::MuonMomentum;

    MZ_HD void operator()(const V&, V g, V& buffer, V& u) const {
      u = this->mean(g, buffer);
      if constexpr (kMode == 1) u = this->mean(g, u);
    }
  };

  static void cpu(std::span<const TensorListEntry> items, const void* settings,
                  const UpdateCall& call);
};

/** Updates the mean of the gradient and steps along u: p = p (1 - lr weight_decay) - lr rate u. */
struct MZ_API MuonUpdate {
  static constexpr std::string_view name = "muon";
  static constexpr std::size_t kStates = 2;  // mean of the gradient, u
  static constexpr unsigned kWrites = kWritesParam | 1u << kState;
  using Settings = MuonSettings;

  static constexpr unsigned kModes = 2;
  static unsigned mode(const Settings& s) { return s.weight_decay != 0 ? 1 : 0; }

  template <class V, unsigned kMode> struct Formula : MuonMomentum<V> {
    V kept, length;

    MZ_HD explicit Formula(const Settings& s)
        : MuonMomentum<V>(s),
          kept(static_cast<V>(1 - s.time.rate() * s.weight_decay)),
          length(static_cast<V>(s.time.rate() * s.rate)) {}

    MZ_HD void operator()(V& p, V g, V& buffer, const V& u) const {
      buffer = this->mean(g, buffer);
      if constexpr (kMode == 1) p = kept * p;
      p = p - length * u;
    }
  };

  static void cpu(std::span<const TensorListEntry> items, const void* settings,
                  const UpdateCall& call);
};

}  // namespace mezzo::optim
