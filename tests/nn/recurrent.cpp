// Recurrent layers and packed sequences, beyond the comparison with PyTorch in
// tests/golden/layers.cpp.
#include <cmath>

#include "support.h"

using namespace mezzo;

TEST_CASE(
    "recurrent layers start from U(-1, 1) / sqrt(hidden) and are printed with their settings") {
  manual_seed(1);
  const nn::LSTM layer(
      40, 64, {.num_layers = 2, .batch_first = true, .dropout = 0.5, .bidirectional = true});
  CHECK(str(layer).find("LSTM(40, 64, num_layers 2, batch_first, dropout 0.5, bidirectional)") ==
        0);
  for (const nn::NamedTensor& p : layer.named_parameters()) {
    INFO(p.name);
    CHECK(amax(abs(p.tensor)).item<double>() <= 0.125);
    CHECK(amax(abs(p.tensor)).item<double>() > 0.12);
  }
  CHECK(keys(nn::LSTM(3, 4, {.bias = false, .proj_size = 2})) ==
        "weight_ih_l0 [16,3], weight_hh_l0 [16,2], weight_hr_l0 [2,4]");
}

TEST_CASE("a recurrent layer names an input of the wrong width and itself") {
  struct Net : nn::Model<Net> {
    nn::LSTM lstm = add("lstm", nn::LSTM{10, 20, {.num_layers = 2}});
    Tensor forward(const Tensor& x) const { return lstm(x).output; }
  };
  const Net net;
  CHECK_THROWS_WITH_AS_TEXT(net(ones({5, 3, 7})), ShapeError,
                            "LSTM(lstm): the input has the wrong number of features; got input "
                            "f32[5,3,7]@cpu with 7 features, expected 10 features, the input_size "
                            "of this LSTM(10, 20, num_layers 2)");
  CHECK_THROWS_WITH_AS_TEXT(net(ones({5, 3, 7})), ShapeError, "lstm");
  CHECK_THROWS_WITH_AS_TEXT(nn::GRU(4, 2)(ones({5, 3})), ShapeError, "this GRU(4, 2)");
  CHECK_THROWS_WITH_AS_TEXT(nn::RNN(4, 2)(nn::pack_padded_sequence(ones({5, 1, 3}), {5})),
                            ShapeError, "this RNN(4, 2)");
  CHECK_THROWS_WITH_AS_TEXT(nn::LSTMCell(4, 2)(ones({3})), ShapeError, "this LSTMCell(4, 2)");
  CHECK_THROWS_WITH_AS_TEXT(nn::GRUCell(4, 2)(ones({1, 3})), ShapeError, "this GRUCell(4, 2)");
  CHECK_THROWS_WITH_AS_TEXT(nn::RNNCell(4, 2)(ones({1, 3})), ShapeError, "this RNNCell(4, 2)");
  const nn::GRU layer(4, 2);
  CHECK_THROWS_WITH_AS_TEXT(gru(ones({5, 1, 3}), {}, layer.weights()), ShapeError,
                            "got input f32[5,1,3]@cpu and weight_ih of layer 0 f32[6,4]@cpu");
}

TEST_CASE("a layer's states continue a sequence") {
  manual_seed(2);
  const nn::LSTM layer(3, 4, {.num_layers = 2});
  const Tensor x = randn({6, 2, 3});
  const LstmResult whole = layer(x), first = layer(x.narrow(0, 0, 4));
  const LstmResult second = layer(x.narrow(0, 4, 2), LstmState{first.h, first.c});
  CHECK(values(second.output) == values(whole.output.narrow(0, 4, 2)));
  CHECK(values(second.c) == values(whole.c));
}

TEST_CASE("a cell called step by step equals a layer with the same weights") {
  manual_seed(3);
  const nn::GRU layer(3, 4);
  const nn::GRUCell cell(3, 4);
  for (const char* name : {"weight_ih", "weight_hh", "bias_ih", "bias_hh"}) {
    const NoGrad no_grad;
    cell.parameter(name).copy_(layer.parameter(str(std::string(name), "_l0")));
  }
  const Tensor x = randn({5, 2, 3});
  Tensor h;
  for (int t = 0; t < 5; ++t) h = cell(x[t], h);
  const std::vector<double> a = values(h), b = values(layer(x).h[0]);
  for (std::size_t i = 0; i < a.size(); ++i) CHECK(a[i] == Approx(b[i]).margin(1e-6));
}

TEST_CASE("dropout between layers is active in training mode only") {
  manual_seed(4);
  const nn::GRU layer(3, 8, {.num_layers = 2, .dropout = 0.5});
  const Tensor x = randn({4, 2, 3});
  CHECK(values(layer(x).output) != values(layer(x).output));
  layer.eval();
  CHECK(values(layer(x).output) == values(layer(x).output));
}

TEST_CASE("packing and padding are inverse operations") {
  const Tensor x = arange(1.0, 25).view({4, 3, 2});
  const nn::PackedSequence packed =
      nn::pack_padded_sequence(x, {2, 4, 3}, {.enforce_sorted = false});
  CHECK(packed.batch_sizes == std::vector<std::int64_t>{3, 3, 2, 1});
  CHECK(packed.sorted_indices == std::vector<std::int64_t>{1, 2, 0});
  CHECK(packed.unsorted_indices() == std::vector<std::int64_t>{2, 0, 1});
  CHECK(packed.lengths() == std::vector<std::int64_t>{2, 4, 3});
  CHECK(values(packed.data.narrow(0, 0, 3)) == std::vector<double>{3, 4, 5, 6, 1, 2});
  const nn::PaddedSequence padded = nn::pad_packed_sequence(
      packed, {.batch_first = true, .padding_value = -1, .total_length = 5});
  CHECK(padded.output.shape() == Shape{3, 5, 2});
  CHECK(padded.lengths == std::vector<std::int64_t>{2, 4, 3});
  CHECK(values(padded.output[0]) == std::vector<double>{1, 2, 7, 8, -1, -1, -1, -1, -1, -1});
  CHECK(values(padded.output[1]) == std::vector<double>{3, 4, 9, 10, 15, 16, 21, 22, -1, -1});
  const nn::PackedSequence again =
      nn::pack_padded_sequence(padded.output, tensor({2, 4, 3}, {.dtype = i64}),
                               {.batch_first = true, .enforce_sorted = false});
  CHECK(values(again.data) == values(packed.data));
  const nn::PackedSequence low = packed.to(f16);
  CHECK(low.data.dtype() == f16);
  CHECK(low.lengths() == packed.lengths());
  CHECK(nn::pack_padded_sequence(x, {4, 4, 1}).sorted_indices.empty());
}

TEST_CASE("gradients of packed sequences reach existing steps only") {
  const Tensor x = ones({3, 2, 1}, {.requires_grad = true});
  const nn::PackedSequence packed = nn::pack_padded_sequence(x, {3, 1});
  sum(nn::pad_packed_sequence(packed).output * 2.0).backward();
  CHECK(values(x.grad()) == std::vector<double>{2, 2, 2, 0, 2, 0});
}

TEST_CASE("a packed sequence gives the results of its sequences one by one") {
  manual_seed(5);
  const nn::LSTM layer(3, 4, {.num_layers = 2, .bidirectional = true});
  const Tensor x = randn({5, 3, 3});
  const std::vector<std::int64_t> lengths{2, 5, 4};
  const nn::PackedLstmResult packed =
      layer(nn::pack_padded_sequence(x, lengths, {.enforce_sorted = false}));
  const Tensor output = nn::pad_packed_sequence(packed.output).output;
  for (std::int64_t i = 0; i < 3; ++i) {
    const std::int64_t length = lengths[static_cast<std::size_t>(i)];
    const LstmResult alone = layer(x.select(1, i).narrow(0, 0, length));
    const std::vector<double> a = values(output.select(1, i).narrow(0, 0, length)),
                              b = values(alone.output);
    for (std::size_t k = 0; k < a.size(); ++k) CHECK(a[k] == Approx(b[k]).margin(1e-6));
    const std::vector<double> c = values(packed.c.select(1, i)), d = values(alone.c);
    for (std::size_t k = 0; k < c.size(); ++k) CHECK(c[k] == Approx(d[k]).margin(1e-6));
  }
}

TEST_CASE("recurrent layers refuse invalid inputs") {
  CHECK_THROWS_AS(nn::RNN(0, 4), ValueError);
  CHECK_THROWS_AS(nn::GRU(3, 0), ValueError);
  CHECK_THROWS_AS(nn::LSTM(3, 4, {.num_layers = 0}), ValueError);
  CHECK_THROWS_AS(nn::LSTM(3, 4, {.dropout = 1.5}), ValueError);
  CHECK_THROWS_AS(nn::LSTM(3, 4, {.proj_size = 4}), ValueError);
  CHECK_THROWS_AS(nn::LSTM(3, 4, {.proj_size = -1}), ValueError);
  CHECK_THROWS_AS(nn::RNNCell(0, 1), ValueError);
  const nn::LSTM layer(3, 4, {.num_layers = 2});
  CHECK_THROWS_AS(layer(Tensor{}), ValueError);
  CHECK_THROWS_AS(layer(ones({3})), ShapeError);
  CHECK_THROWS_AS(layer(ones({5, 2, 4})), ShapeError);
  CHECK_THROWS_AS(layer(ones({5, 2, 3}), LstmState{ones({2, 4}), ones({2, 4})}), ShapeError);
  CHECK_THROWS_AS(layer(ones({5, 3}), LstmState{ones({2, 1, 4}), {}}), ShapeError);
  CHECK_THROWS_AS(layer(ones({5, 2, 3}), LstmState{ones({1, 2, 4}), {}}), ShapeError);
  CHECK_THROWS_AS(layer(ones({5, 2, 3}), LstmState{ones({2, 3, 4}), {}}), ShapeError);
  CHECK_THROWS_AS(layer(ones({5, 2, 3}, {.dtype = f16})), DtypeError);
  CHECK_THROWS_AS(nn::GRUCell(3, 4)(ones({2, 2, 3})), ShapeError);
  CHECK_THROWS_AS(nn::GRUCell(3, 4)(ones({2, 3}), ones({4})), ShapeError);
  CHECK_THROWS_AS(nn::LSTMCell(3, 4)(ones({2, 5})), ShapeError);
}

TEST_CASE("packing refuses inconsistent lengths") {
  const Tensor x = ones({4, 2, 3});
  CHECK(error_of<ValueError>([&] { nn::pack_padded_sequence(x, {2, 3}); }) ==
        "pack_padded_sequence: the sequences are not sorted by length; got 3 after 2, expected "
        "non-increasing lengths; pass {.enforce_sorted = false}");
  CHECK_THROWS_AS(nn::pack_padded_sequence(x, {4}), ValueError);
  CHECK_THROWS_AS(nn::pack_padded_sequence(x, {5, 1}), ValueError);
  CHECK_THROWS_AS(nn::pack_padded_sequence(x, {4, 0}), ValueError);
  CHECK_THROWS_AS(nn::pack_padded_sequence(ones({4}), {1}), ShapeError);
  CHECK_THROWS_AS(nn::pack_padded_sequence(x, ones({2})), ValueError);
  const nn::PackedSequence good = nn::pack_padded_sequence(x, {4, 2});
  CHECK_THROWS_AS(nn::pad_packed_sequence(good, {.total_length = 3}), ValueError);
  nn::PackedSequence bad = good;
  bad.batch_sizes = {1, 2};
  CHECK_THROWS_AS(nn::pad_packed_sequence(bad), ValueError);
  bad.batch_sizes = {2, 2};
  CHECK_THROWS_AS(nn::pad_packed_sequence(bad), ValueError);
  bad = good;
  bad.sorted_indices = {0, 0};
  CHECK_THROWS_AS(nn::pad_packed_sequence(bad), ValueError);
  CHECK_THROWS_AS(nn::pad_packed_sequence(nn::PackedSequence{}), ValueError);
  CHECK_THROWS_AS(nn::LSTM(3, 4)(good, LstmState{ones({1, 4}), {}}), ShapeError);
}

TEST_CASE("first and second derivatives of small recurrent layers") {
  manual_seed(6);
  const nn::LSTM layer(2, 2, {.bidirectional = true, .proj_size = 1});
  layer.to(f64);
  const auto run = [&](const std::vector<Tensor>& x) {
    const LstmResult r = layer(x[0], LstmState{x[1], x[2]});
    return std::vector<Tensor>{r.output, r.h, r.c};
  };
  const TensorOptions wanted{.dtype = f64, .requires_grad = true};
  const std::vector<Tensor> x{randn({3, 2, 2}, wanted), randn({2, 2, 1}, wanted),
                              randn({2, 2, 2}, wanted)};
  const GradcheckResult first = gradcheck(run, x), second = gradgradcheck(run, x);
  INFO(first.report << second.report);
  CHECK(first.ok);
  CHECK(second.ok);
}
