#include "object_list.h"

#include "checkpoint/checkpoint.h"

namespace mezzo::amp {

template <class T> struct Parts<T>::Entries : std::vector<Entry> {
  using std::vector<Entry>::vector;
};

template <class T>
Parts<T>::Parts(std::initializer_list<Entry> several)
    : entries_(std::make_shared<const Entries>(several)) {}
template <class T> Parts<T>::Parts(T* one) : Parts({Entry({}, *one)}) {}

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

}  // namespace mezzo::amp
