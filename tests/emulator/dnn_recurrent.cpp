// The emulated cuDNN's recurrent layers: the CPU's kernels, with checks of the arguments that the
// library requires.
#include "../../cuda/dnn/recurrent.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "cuda.h"
#include "dnn.h"
#include "faults.h"
#include "memory.h"

namespace mezzo::gpu::dnn {

namespace {

using Backward = op::RecurrentLayerBackward;
using Parameter = Backward::Parameter;

/** Throws Fault for an invalid call, so that no fallback hides it. */
void require_recurrent(bool holds, const char* what) {
  if (!holds) throw emulator::Fault(std::string("cudnnRNN: bad call: ") + what);
}

/** Gap between the parameters in bytes. They are also stored in an unusual order, so that code
 *  which assumes offsets fails. */
constexpr std::int64_t kParameterGap = 64;

std::int64_t gates(const Recurrent& r) { return op::gates_of(r.kind); }
bool projects(const Recurrent& r) { return r.size != r.hidden; }

std::array<Shape, 5> parameter_shapes(const Recurrent& r) {
  const std::int64_t columns = gates(r) * r.hidden;
  return {Shape{columns, r.features}, Shape{columns, r.size}, Shape{columns}, Shape{columns},
          projects(r) ? Shape{r.size, r.hidden} : Shape{0}};
}

std::int64_t bytes_of(const Shape& shape, DType dtype) {
  return checked_numel(shape, "cudnnRNN") * static_cast<std::int64_t>(item_size(dtype));
}

op::RecurrentAttrs recurrent_attrs(const Recurrent& r) {
  return {.kind = r.kind, .keep = true, .lengths = {r.lengths.begin(), r.lengths.end()}};
}

/** Copies a device array to the host; undefined for null. */
Tensor fetched(const void* data, const Shape& shape, DType dtype) {
  if (!data) return {};
  require_recurrent(emulator::is_device_memory(data), "an operand is not device memory");
  const Tensor x = empty_tensor(shape, dtype, cpu);
  std::memcpy(x.raw_data(), data, static_cast<std::size_t>(bytes_of(shape, dtype)));
  return x;
}
void write_back(const Tensor& x, void* data) {
  if (data && x.numel() > 0)
    std::memcpy(data, x.raw_data(), static_cast<std::size_t>(bytes_of(x.shape(), x.dtype())));
}

const void* place(const void* weights, const RecurrentSpaces& s, std::size_t parameter) {
  return s.places[parameter] ? static_cast<const char*>(weights) + *s.places[parameter] : nullptr;
}

/** Returns the operands of the forward op. */
std::array<Tensor, 8> operands(const Recurrent& r, const RecurrentSpaces& s,
                               const RecurrentArrays& a) {
  std::array<Tensor, 5> p;
  for (std::size_t i = 0; i < p.size(); ++i)
    p[i] = fetched(place(a.weights, s, i), parameter_shapes(r)[i], r.dtype);
  return {fetched(a.x, {r.steps, r.batch, r.features}, r.dtype),
          fetched(a.h0, {r.batch, r.size}, r.dtype),
          fetched(a.c0, {r.batch, r.hidden}, r.dtype),
          p[0],
          p[1],
          p[2],
          p[3],
          p[4]};
}

/** Corrupts results as the fault demands. */
void spoil_recurrent(const Tensor& x, emulator::DnnFault fault) {
  if (emulator::dnn_fault() != fault) return;
  visit_dtype(x.dtype(), [&]<class T>(std::type_identity<T>) {
    for (T& value : std::span(x.data<T>(), static_cast<std::size_t>(x.numel()))) {
      const auto number = static_cast<double>(value);
      if (fault != emulator::DnnFault::hidden_nan)
        value = static_cast<T>(number * 1.25);
      else if (number != number)
        value = static_cast<T>(0.0);
    }
  });
}

template <std::size_t N> std::array<Tensor, N> results(const OutSpecs& specs) {
  std::array<Tensor, N> all;
  for (std::size_t i = 0; i < N; ++i)
    all[i] = empty_tensor(specs.items[i].shape, specs.items[i].dtype, cpu);
  return all;
}

void compute_recurrent(const Recurrent& r, const RecurrentSpaces& s, const RecurrentArrays& a) {
  const emulator::MemoryScope scope;
  const std::array<Tensor, 8> in = operands(r, s, a);
  const op::RecurrentAttrs attrs = recurrent_attrs(r);
  std::array<Tensor, 4> out = results<4>(op::RecurrentLayer::infer(in, attrs));
  op::RecurrentLayer::cpu(in, out, attrs);
  spoil_recurrent(out[0], emulator::DnnFault::wrong_results);
  spoil_recurrent(out[0], emulator::DnnFault::hidden_nan);
  write_back(out[0], a.y);
  write_back(out[1], a.h);
  write_back(out[2], a.c);
  if (r.training) write_back(out[3], a.reserve);
}

void compute_gradients(const Recurrent& r, const RecurrentSpaces& s, const RecurrentArrays& a,
                       const RecurrentGradients& g) {
  const emulator::MemoryScope scope;
  const std::array<Tensor, 8> given = operands(r, s, a);
  const op::RecurrentAttrs attrs = recurrent_attrs(r);
  const OutSpec kept = op::RecurrentLayer::infer(given, attrs).items[3];
  const std::array<Tensor, 11> in{given[0],
                                  given[1],
                                  given[2],
                                  given[3],
                                  given[4],
                                  given[7],
                                  fetched(a.y, {r.steps, r.batch, r.size}, r.dtype),
                                  fetched(a.reserve, kept.shape, kept.dtype),
                                  fetched(g.gy, {r.steps, r.batch, r.size}, r.dtype),
                                  fetched(g.gh, {r.batch, r.size}, r.dtype),
                                  fetched(g.gc, {r.batch, r.hidden}, r.dtype)};
  Backward::Attrs back{attrs, {}};
  const bool weights = g.weights != nullptr;
  back.wanted = {true,    g.h0 && a.h0, g.c0 && a.c0, weights,
                 weights, weights,      weights,      weights && projects(r)};
  std::array<Tensor, 4> out = results<4>(Backward::infer(in, back));
  Backward::cpu(in, out, back);
  spoil_recurrent(out[3], emulator::DnnFault::wrong_gradients);
  write_back(out[0], g.x);
  write_back(out[1], g.h0);
  write_back(out[2], g.c0);
  // the library may overwrite it
  std::memset(a.reserve, 0xFF, static_cast<std::size_t>(s.reserve));
  if (!weights) return;
  const auto places = op::parameter_places(in, back.wanted);
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (!s.places[i]) continue;
    char* const to = static_cast<char*>(g.weights) + *s.places[i];
    const auto bytes = static_cast<std::size_t>(bytes_of(places[i].shape, r.dtype));
    require_recurrent(std::count(to, to + bytes, 0) == static_cast<std::ptrdiff_t>(bytes),
                      "the weight gradients are not 0 before accumulation");
    std::memcpy(to,
                static_cast<const char*>(out[3].raw_data()) +
                    places[i].offset * static_cast<std::int64_t>(item_size(r.dtype)),
                bytes);
  }
}

}  // namespace

std::optional<RecurrentSpaces> recurrent_spaces(const Recurrent& r, Device) {
  // The library does not keep weights on chip for few sequences.
  if (!emulator::has_dnn() || (r.persistent && r.batch < 4)) return std::nullopt;
  if (emulator::fails_in(emulator::LibraryStage::support)) return std::nullopt;
  emulator::reach_stage(emulator::LibraryStage::planning, "cudnnGetRNNWeightSpaceSize");
  RecurrentSpaces spaces{.work = 256};
  const std::array<Shape, 5> shapes = parameter_shapes(r);
  for (const Parameter p :
       {Parameter::kDbhh, Parameter::kDwih, Parameter::kDwhr, Parameter::kDbih, Parameter::kDwhh}) {
    if (p == Parameter::kDwhr && !projects(r)) continue;
    spaces.weights += kParameterGap;
    spaces.places[p] = spaces.weights;
    spaces.weights += bytes_of(shapes[p], r.dtype);
  }
  std::int64_t rows = r.lengths.empty() ? r.steps * r.batch : 0;
  for (const std::int32_t length : r.lengths) rows += length;
  if (r.training)
    spaces.reserve =
        bytes_of({rows * r.hidden * (gates(r) == 1 ? 1 : gates(r) + 1)}, compute_dtype(r.dtype));
  return spaces;
}

bool run(const Recurrent& r, const RecurrentSpaces& s, const RecurrentArrays& a, Device,
         runtime::Stream stream) {
  require_recurrent(a.x && a.weights && a.y && a.h, "an array is missing");
  emulator::reach_stage(emulator::LibraryStage::execution, "cudnnRNNForward");
  emulator::submit({"cuDNN", 0, stream}, [=] { compute_recurrent(r, s, a); });
  return true;
}

bool differentiate(const Recurrent& r, const RecurrentSpaces& s, const RecurrentArrays& a,
                   const RecurrentGradients& g, Device, runtime::Stream stream) {
  require_recurrent(a.x && a.weights && a.y && a.reserve && g.gy && g.x, "an array is missing");
  emulator::reach_stage(emulator::LibraryStage::execution, "cudnnRNNBackwardData_v8");
  emulator::submit({"cuDNN", 0, stream}, [=] { compute_gradients(r, s, a, g); });
  return true;
}

bool recurrent_is_deterministic() { return false; }

}  // namespace mezzo::gpu::dnn
