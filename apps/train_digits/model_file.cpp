#include "apps/train_digits/model_file.hpp"

#include <fmt/core.h>

#include <bit>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <optional>

#include "apps/train_digits/digits_data.hpp"
#include "apps/train_digits/files.hpp"
#include "apps/train_digits/fingerprint.hpp"

namespace ddprun::inline app {

namespace {

constexpr std::string_view kFirstLine = "ddprun-digits-model 1\n";
constexpr std::size_t kFingerprintBytes = 8;
constexpr std::size_t kMaxHeaderBytes = 128;
static_assert(std::endian::native == std::endian::little,
              "the model file is copied to and from memory as it is");

std::string shape_line(const MlpShape& shape) {
    return fmt::format("inputs {} hidden {} outputs {}\n", shape.inputs, shape.hidden, shape.outputs);
}

// The hidden size in a shape line, which has one spelling only.
std::optional<MlpShape> parse_shape_line(std::string_view line) {
    constexpr std::string_view kBeforeHidden = "inputs 64 hidden ";
    static_assert(kImagePixels == 64);
    if (!line.starts_with(kBeforeHidden)) return {};
    MlpShape shape{.inputs = kImagePixels, .hidden = 0, .outputs = kDigitClasses};
    const char* digits = line.data() + kBeforeHidden.size();
    if (std::from_chars(digits, line.data() + line.size(), shape.hidden).ec != std::errc()) return {};
    if (shape.hidden < 1 || shape.hidden > kMaxHidden || shape_line(shape) != line) return {};
    return shape;
}

}  // namespace

std::string encode_model(const MlpShape& shape, std::span<const float> parameters) {
    std::string bytes = std::string(kFirstLine) + shape_line(shape);
    bytes.append(reinterpret_cast<const char*>(parameters.data()), parameters.size_bytes());
    const std::uint64_t fingerprint = fingerprint_of(std::span<const char>(bytes));
    bytes.append(reinterpret_cast<const char*>(&fingerprint), kFingerprintBytes);
    return bytes;
}

Model decode_model(std::string_view bytes, const std::string& name) {
    if (!bytes.starts_with(kFirstLine)) {
        throw InputError(fmt::format("{}: not a model of train_digits (its first line is not '{}')", name,
                                     kFirstLine.substr(0, kFirstLine.size() - 1)));
    }
    const std::string_view after_first = bytes.substr(kFirstLine.size());
    const std::size_t line_end = after_first.substr(0, kMaxHeaderBytes).find('\n');
    const std::string_view line =
        after_first.substr(0, line_end == std::string_view::npos ? 0 : line_end + 1);
    const std::optional<MlpShape> shape = parse_shape_line(line);
    if (!shape) {
        throw InputError(fmt::format("{}: line 2 is not 'inputs 64 hidden N outputs 10' with N from 1 to {}",
                                     name, kMaxHidden));
    }

    Model model{.shape = *shape, .parameters = std::vector<float>(shape->parameter_count())};
    const std::string_view body = after_first.substr(line.size());
    const std::size_t parameter_bytes = model.parameters.size() * sizeof(float);
    if (body.size() != parameter_bytes + kFingerprintBytes) {
        throw InputError(fmt::format("{}: {} bytes after line 2, must be {} for this shape", name,
                                     body.size(), parameter_bytes + kFingerprintBytes));
    }
    std::uint64_t fingerprint = 0;
    std::memcpy(&fingerprint, body.data() + parameter_bytes, kFingerprintBytes);
    if (fingerprint != fingerprint_of(std::span(bytes).first(bytes.size() - kFingerprintBytes))) {
        throw InputError(name + ": damaged: its fingerprint does not fit its content");
    }
    std::memcpy(model.parameters.data(), body.data(), parameter_bytes);
    return model;
}

Model read_model(const std::string& path) {
    const MlpShape largest{.inputs = kImagePixels, .hidden = kMaxHidden, .outputs = kDigitClasses};
    const std::size_t max_bytes =
        kFirstLine.size() + kMaxHeaderBytes + largest.parameter_count() * sizeof(float) + kFingerprintBytes;
    return decode_model(read_file(path, max_bytes), path);
}

}  // namespace ddprun::inline app
