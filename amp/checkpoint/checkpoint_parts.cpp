#include "checkpoint_parts.h"

#include <algorithm>
#include <set>

#include "../../tensor/io/utf8.h"
#include "../../tensor/text/text.h"
#include "../scaling/amp_optimizer_state.h"
#include "../session_core.h"

namespace mezzo::amp {

CheckpointMetadata::CheckpointMetadata() = default;
CheckpointMetadata::CheckpointMetadata(const CheckpointMetadata&) = default;
CheckpointMetadata::CheckpointMetadata(CheckpointMetadata&&) noexcept = default;
CheckpointMetadata& CheckpointMetadata::operator=(const CheckpointMetadata&) = default;
CheckpointMetadata& CheckpointMetadata::operator=(CheckpointMetadata&&) noexcept = default;
CheckpointMetadata::~CheckpointMetadata() = default;

template <class T> struct Parts<T>::Entries : std::vector<Entry> {
  using std::vector<Entry>::vector;
};

template <class T> Parts<T>::Parts() = default;
template <class T>
Parts<T>::Parts(const Parts& other) : entries_(new Entries(other.begin(), other.end())) {}
template <class T> Parts<T>::Parts(Parts&&) noexcept = default;
template <class T> Parts<T>& Parts<T>::operator=(const Parts& other) {
  return *this = Parts(other);
}
template <class T> Parts<T>& Parts<T>::operator=(Parts&&) noexcept = default;
template <class T> Parts<T>::~Parts() = default;

template <class T>
Parts<T>::Parts(std::initializer_list<Entry> several) : entries_(new Entries(several)) {}
template <class T> Parts<T>::Parts(T* one) : entries_(new Entries(1, Entry({}, *one))) {}

template <class T> auto Parts<T>::begin() const -> const Entry* {
  return entries_ ? entries_->data() : nullptr;
}
template <class T> auto Parts<T>::end() const -> const Entry* { return begin() + size(); }
template <class T> std::size_t Parts<T>::size() const { return entries_ ? entries_->size() : 0; }

template class Parts<const nn::Module>;
template class Parts<data::Batches>;
template class Parts<Generator>;
template class Parts<GradScaler>;
template class Parts<nn::ExponentialMovingAverage>;
template class Parts<optim::Optimizer>;
template class Parts<optim::SchedulerBase>;
template class Parts<Session>;

namespace {

template <class T>
void require_names(std::string_view op, std::string_view what, const Parts<T>& parts) {
  std::set<std::string_view> seen;
  for (const auto& part : parts) {
    const bool alone = parts.size() == 1 && part.name.empty();
    if (!alone && (part.name.empty() || part.name.find('.') != std::string::npos ||
                   io::find_non_utf8(part.name) != std::string::npos))
      fail<ValueError>(op, {.what = str("invalid name for a ", what),
                            .got = io::quote(part.name),
                            .expected = "UTF-8 text without a dot"});
    if (!seen.insert(part.name).second)
      fail<ValueError>(op,
                       {.what = str("duplicate name for a ", what), .got = io::quote(part.name)});
  }
}

void require_metadata(std::string_view op, const CheckpointMetadata& metadata) {
  const auto require = [&](const std::string& text) {
    if (io::find_non_utf8(text) != std::string::npos)
      fail<ValueError>(op, {.what = "the metadata is not UTF-8", .got = io::quote(text)});
  };
  for (const auto& [key, value] : metadata) {
    require(key);
    if (const auto* text = std::get_if<std::string>(&value)) require(*text);
  }
}

bool takes_part(const Training& training, const nn::AttachedSession* core) {
  return std::any_of(training.session.begin(), training.session.end(),
                     [core](const auto& session) { return &session.object->core() == core; });
}

void require_sessions(std::string_view op, const Training& training) {
  constexpr const char* kHint = "add the session to .session; training cannot resume without it";
  for (const auto& session : training.session)
    if (!session.object->core().live)
      fail<StateError>(op, {.what = "a session is closed", .got = io::quote(session.name)});
  for (const auto& optimizer : training.optimizer) {
    const auto link = AmpOptimizerState::of(*optimizer.object);
    if (link && link->core->enabled() && !takes_part(training, link->core.get()))
      fail<ValueError>(op, {.what = "an optimizer belongs to a session that is not in .session",
                            .got = std::string(optimizer.object->type_name()),
                            .hint = kHint});
  }
  for (const auto& model : training.model)
    for (const nn::Module& module : model.object->modules())
      if (const nn::AttachedSession* owner = module.attached_to();
          owner && !takes_part(training, owner))
        fail<ValueError>(op, {.what = "a model belongs to a session that is not in .session",
                              .got = std::string(model.object->kind()),
                              .hint = kHint});
}

}  // namespace

void require_valid_parts(std::string_view op, const Training& training) {
  require_names(op, "model", training.model);
  require_names(op, "optimizer", training.optimizer);
  require_names(op, "session", training.session);
  require_names(op, "scaler", training.scaler);
  require_names(op, "schedule", training.schedule);
  require_names(op, "loader", training.loader);
  require_names(op, "generator", training.generator);
  require_names(op, "moving average", training.average);
  for (const std::int64_t number : {training.step, training.epoch})
    if (number < 0)
      fail<ValueError>(op, {.what = "step and epoch must not be negative", .got = str(number)});
  require_metadata(op, training.metadata);
  require_sessions(op, training);
}

std::string without_slash(const std::string& path) {
  std::string out = path;
  while (out.size() > 1 && out.back() == '/') out.pop_back();
  return out;
}

}  // namespace mezzo::amp
