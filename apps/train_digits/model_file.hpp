// The model file of train_digits: its form, encoding and decoding. Pure but for read_model.
//
//   ddprun-digits-model 1\n
//   inputs 64 hidden 128 outputs 10\n             the shape, decimal
//   parameters, each 4 bytes                      IEEE 754 binary32, little-endian, in the order of mlp.hpp
//   fingerprint, 8 bytes                          of all bytes before it (fingerprint.hpp), little-endian
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apps/train_digits/mlp.hpp"

namespace ddprun::inline app {

inline constexpr std::size_t kMaxHidden = 4096;

struct Model {
    MlpShape shape;
    std::vector<float> parameters;
};

// parameters.size() is shape.parameter_count().
std::string encode_model(const MlpShape& shape, std::span<const float> parameters);

// Throws InputError "<name>: …" unless the bytes are one whole model that reads digits (kImagePixels inputs,
// kDigitClasses outputs, 1 to kMaxHidden hidden).
Model decode_model(std::string_view bytes, const std::string& name);

// Throws InputError that names the path if the file cannot be read or is malformed.
Model read_model(const std::string& path);

}  // namespace ddprun::inline app
