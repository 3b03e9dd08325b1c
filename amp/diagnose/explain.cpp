// explain(): the text of Session::explain().
#include <map>
#include <utility>

#include "../../tensor/core/registry.h"
#include "../../tensor/text/text.h"
#include "../autocast/overrides.h"
#include "../session_core.h"

namespace mezzo::amp {

namespace {

// ---- ops ----------------------------------------------------------------------------------------

std::string_view meaning_of(Action what) {
  switch (what) {
    case Action::keep: return "runs in the dtype given";
    case Action::to_low: return "inputs are cast to the 16-bit type";
    case Action::to_f32: return "inputs are cast to f32";
    case Action::promote: return "runs in the widest input's dtype";
    case Action::refuse: break;
  }
  return "is refused";
}

/** Describes what happens to the ops, one line per tag, then lists the ops with overridden tags. */
std::string explain_ops(bool casts_active) {
  std::map<Precision, std::string> ops;
  std::string changed;
  for (const OpInfo* op : all_ops()) {
    if (op->traits.internal) continue;
    const Precision tag = effective_tag(*op), own = op->traits.precision;
    ops[tag] += str(" ", op->traits.name);
    if (tag != own) changed += str(" ", op->traits.name, " (", name(own), " -> ", name(tag), ")");
  }
  std::string out;
  for (const Precision tag :
       {Precision::low, Precision::f32, Precision::promote, Precision::match, Precision::banned})
    if (!ops[tag].empty())
      out += str(name(tag), ": ", meaning_of(action(tag, casts_active)), ":", ops[tag], "\n");
  return changed.empty() ? out : str(out, "overridden tags:", changed, "\n");
}

// ---- models -------------------------------------------------------------------------------------

/** Returns "Net: 4 parameters in f16 (83 elements) 1 parameters in f32 (8 elements)". */
std::string summary(const nn::Module& model) {
  std::map<std::string, std::pair<std::int64_t, std::int64_t>> counts;
  for (const nn::NamedTensor& entry : model.named_parameters()) {
    auto& [tensors, elements] = counts[str(entry.tensor.dtype(), "")];
    ++tensors;
    elements += entry.tensor.numel();
  }
  std::string out = str(model.kind(), ":");
  for (const auto& [dtype, count] : counts)
    out += str(" ", count.first, " parameters in ", dtype, " (", count.second, " elements)");
  return out + "\n";
}

/** Returns why a tensor has its dtype; empty if that is obvious. */
std::string reason(SessionCore& core, const nn::Module& owner, const nn::NamedTensor& entry) {
  const Options& p = core.options;
  if (const Master* const master = core.masters.find(entry.tensor))
    return master->is_updated() ? ", with an f32 master" : ", with its f32 value";
  const bool converts = p.model_dtype() && is_low(*p.model_dtype());
  if (!converts || is_low(entry.tensor.dtype())) return "";
  if (!eligible(entry.tensor.dtype())) return ", kept: f64, integers and bool are never cast";
  if (entry.keep_f32) return ", kept: its layer requires f32";
  if (owner.keeps_f32_under_amp() && p.keeps_batchnorm()) return ", kept: keep_batchnorm_fp32";
  return "";
}

/** Returns one line per parameter and buffer. */
std::string explain_tensors(SessionCore& core, const nn::Module& model) {
  std::string out;
  for (const nn::NamedModule& part : model.named_modules()) {
    const std::string prefix = part.name.empty() ? "" : part.name + ".";
    const auto list = [&](const std::vector<nn::NamedTensor>& tensors, std::string_view what) {
      for (const nn::NamedTensor& entry : tensors)
        out += str("  ", prefix, entry.name, ": ", what, " ", entry.tensor,
                   reason(core, part.module, entry), "\n");
    };
    list(part.module.own_parameters(), "parameter");
    list(part.module.own_buffers(), "buffer");
  }
  return out;
}

}  // namespace

std::string explain(SessionCore& core) {
  if (!core.enabled()) return "mixed precision is disabled\n";
  std::string out = str(explanation(core.options), "\n", overrides_text(core.options), "\n");
  for (const nn::Module& model : core.models) out += summary(model) + explain_tensors(core, model);
  return out + explain_ops(core.casts_ops);
}

}  // namespace mezzo::amp
