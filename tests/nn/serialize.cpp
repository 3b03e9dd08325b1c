// Saving and loading weights in files.
#include <cstdio>
#include <filesystem>

#include "support.h"

using namespace mezzo;

namespace {

/** A file that the destructor removes. */
struct TemporaryFile {
  std::string path;
  explicit TemporaryFile(const char* name)
      : path(
            (std::filesystem::temp_directory_path() / (std::string("mezzo-nn-") + name)).string()) {
  }
  ~TemporaryFile() { std::remove(path.c_str()); }
};

struct ConvNet : nn::Model<ConvNet> {
  nn::Conv2d conv = add("conv", nn::Conv2d{1, 2, 3});
  nn::Linear fc = add("fc", nn::Linear{8, 4});
  Tensor steps = add_buffer("steps", zeros({}, {.dtype = i64}));
  Tensor forward(const Tensor& x) const { return fc(conv(x).flatten(1)); }
};

struct TiedNet : nn::Model<TiedNet> {
  nn::Linear a = add("a", nn::Linear{3, 3});
  Tensor b = add_parameter("b", a.weight());
  Tensor forward(const Tensor& x) const { return linear(a(x), b); }
};

}  // namespace

TEST_CASE("a saved model loads with the same values") {
  const TemporaryFile file("model.safetensors");
  manual_seed(1);
  const ConvNet net, other;
  {
    const NoGrad no_grad;
    net.steps.fill_(41);
  }
  save(file.path, net, {{"step", "41"}});
  CHECK(values(other.fc.weight()) != values(net.fc.weight()));
  const nn::LoadReport report = load(file.path, other);
  CHECK(report.missing.empty());
  CHECK(values(other.fc.weight()) == values(net.fc.weight()));
  CHECK(values(other.conv.bias()) == values(net.conv.bias()));
  CHECK(other.steps.item<std::int64_t>() == 41);
  CHECK(other.fc.weight().requires_grad());
  const LoadedTensors loaded = load_tensors(file.path);
  CHECK(loaded.metadata == TensorMetadata{{"format", "pt"}, {"step", "41"}});
}

TEST_CASE("files hold 16-bit models in f32 and load into them") {
  const TemporaryFile file("low.safetensors");
  const ConvNet net, other;
  net.to(bf16);
  save(file.path, net);
  for (const auto& [name, tensor] : load_tensors(file.path).tensors)
    CHECK(tensor.dtype() == (name == "steps" ? i64 : f32));
  load(file.path, other);
  CHECK(other.fc.weight().dtype() == f32);
  CHECK(values(other.fc.weight()) == values(net.fc.weight()));
  other.to(f16);
  load(file.path, other);
  CHECK(other.fc.weight().dtype() == f16);
}

TEST_CASE("a tied tensor is stored once and tied after loading") {
  const TemporaryFile file("tied.safetensors");
  const TiedNet net, other;
  save(file.path, net);
  CHECK(load_tensors(file.path).tensors.size() == 2);
  load(file.path, other);
  CHECK(values(other.b) == values(net.a.weight()));
  CHECK(other.b.is_same(other.a.weight()));
}

TEST_CASE("a file of another model is refused by name, and nothing changes") {
  const TemporaryFile file("other.safetensors");
  const ConvNet net;
  const std::vector<double> before = values(net.fc.weight());
  save(file.path, nn::Sequential{nn::Linear{8, 4}});
  const std::string text = error_of<ValueError>([&] { load(file.path, net); });
  CHECK(text.find("load(" + file.path + "): the values do not fit ConvNet; got ") == 0);
  CHECK(text.find("missing: ") != std::string::npos);
  CHECK(text.find("2 unexpected: \"0.") != std::string::npos);
  CHECK(values(net.fc.weight()) == before);
  const nn::LoadReport report = load(file.path, net, {.strict = false});
  CHECK(report.missing.size() == 5);
  CHECK(report.unexpected.size() == 2);
  CHECK_THROWS_AS(load(file.path + ".absent", net), IoError);
}

TEST_CASE("a load renames, skips and reports what does not fit") {
  const TemporaryFile file("finetune.safetensors");
  manual_seed(3);
  const ConvNet pretrained;
  NamedTensors tensors;
  for (const auto& [name, value] : saved_tensors(pretrained))
    tensors.emplace_back("backbone." + name, value);
  save_tensors(file.path, tensors);

  const auto differs = [&](const ConvNet& net) {
    return values(net.conv.weight()) != values(pretrained.conv.weight());
  };
  const ConvNet whole;
  nn::LoadReport report = load(file.path, whole, {.rename = {{"backbone.", ""}}});
  CHECK_FALSE(differs(whole));
  CHECK(report.missing.empty());

  const ConvNet head;
  const std::vector<double> before = values(head.fc.weight());
  report = load(file.path, head, {.skip = {"fc."}, .rename = {{"backbone.", ""}}});
  CHECK_FALSE(differs(head));
  CHECK(values(head.fc.weight()) == before);
  CHECK(report.missing.empty());
  CHECK(report.unexpected.empty());

  const ConvNet other;
  CHECK_THROWS_WITH_AS_TEXT(load(file.path, other), ValueError, "backbone.conv.weight");
  CHECK_THROWS_WITH_AS_TEXT(load(file.path, other, {.rename = {{"model.", ""}}}), ValueError,
                            ".rename; got \"model.\"");
  CHECK_THROWS_WITH_AS_TEXT(
      load(file.path, other, {.skip = {"fd."}, .rename = {{"backbone.", ""}}}), ValueError,
      ".skip; got \"fd.\"");
  CHECK_THROWS_WITH_AS_TEXT(
      load(file.path, other,
           {.rename = {{"backbone.conv.weight", "fc.weight"}, {"backbone.", ""}}}),
      ValueError, "fc.weight");
  CHECK(differs(other));
}

TEST_CASE("values of another shape are an error that can be turned into a report") {
  const TemporaryFile file("mismatched.safetensors");
  manual_seed(4);
  const nn::Sequential from(nn::Linear(4, 8), nn::ReLU(), nn::Linear(8, 10));
  const nn::Sequential to(nn::Linear(4, 8), nn::ReLU(), nn::Linear(8, 3));
  save(file.path, from);
  CHECK_THROWS_WITH_AS_TEXT(load(file.path, to, {.strict = false}), ValueError,
                            ".ignore_mismatched_sizes");
  const nn::LoadReport report = load(file.path, to, {.ignore_mismatched_sizes = true});
  CHECK(report.mismatched == std::vector<std::string>{"2.weight", "2.bias"});
  CHECK(values(to.parameters()[0]) == values(from.parameters()[0]));
}
