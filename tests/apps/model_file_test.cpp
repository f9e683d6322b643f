#include "apps/train_digits/model_file.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

#include "apps/train_digits/files.hpp"
#include "apps/train_digits/fingerprint.hpp"
#include "tests/apps/input_error_message.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

// A fresh folder, removed at the end.
class TemporaryFolder {
  public:
    TemporaryFolder() {
        std::string name = (std::filesystem::temp_directory_path() / "ddprun_model_XXXXXX").string();
        REQUIRE(::mkdtemp(name.data()) != nullptr);
        path_ = name;
    }
    TemporaryFolder(const TemporaryFolder&) = delete;
    TemporaryFolder& operator=(const TemporaryFolder&) = delete;
    ~TemporaryFolder() { std::filesystem::remove_all(path_); }

    std::string operator/(const std::string& name) const { return (path_ / name).string(); }
    std::size_t entries() const {
        return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(path_), {}));
    }

  private:
    std::filesystem::path path_;
};

const MlpShape kSmall{.inputs = 64, .hidden = 3, .outputs = 10};

std::string small_model() { return encode_model(kSmall, initial_parameters(kSmall, 1)); }

TEST_CASE("a model comes back as it was written", "[model]") {
    for (const std::size_t hidden : {std::size_t{1}, std::size_t{128}, kMaxHidden}) {
        CAPTURE(hidden);
        const MlpShape shape{.inputs = 64, .hidden = hidden, .outputs = 10};
        const std::vector<float> parameters = initial_parameters(shape, 4);
        const Model model = decode_model(encode_model(shape, parameters), "m");
        CHECK(model.shape == shape);
        CHECK(model.parameters == parameters);
    }
}

TEST_CASE("the model file has the documented bytes", "[model]") {
    const MlpShape shape{.inputs = 64, .hidden = 1, .outputs = 10};
    std::vector<float> parameters(shape.parameter_count(), 0.0f);
    parameters[0] = 1.0f;
    const std::string bytes = encode_model(shape, parameters);
    const std::string header = "ddprun-digits-model 1\ninputs 64 hidden 1 outputs 10\n";
    CHECK(bytes.starts_with(header + std::string("\x00\x00\x80\x3f\x00", 5)));
    CHECK(bytes.size() == header.size() + 4 * (65 + 20) + 8);
}

TEST_CASE("a malformed model is refused with its name and what is wrong", "[model]") {
    const std::string good = small_model();
    const std::string header = "ddprun-digits-model 1\n";
    const std::string rest = good.substr(good.find('\n', header.size()) + 1);
    const std::string line_2 = "m: line 2 is not 'inputs 64 hidden N outputs 10' with N from 1 to 4096";
    struct Row {
        std::string bytes;
        std::string message;
    };
    const std::vector<Row> rows = {
        {"", "m: not a model of train_digits (its first line is not 'ddprun-digits-model 1')"},
        {"ddprun-digits-model 2\n",
         "m: not a model of train_digits (its first line is not 'ddprun-digits-model 1')"},
        {header, line_2},
        {header + "inputs 64 hidden 3 outputs 10", line_2},
        {header + "inputs 64 hidden 0 outputs 10\n" + rest, line_2},
        {header + "inputs 64 hidden 4097 outputs 10\n" + rest, line_2},
        {header + "inputs 64 hidden 99999999999999999999 outputs 10\n" + rest, line_2},
        {header + "inputs 64 hidden -3 outputs 10\n" + rest, line_2},
        {header + "inputs 64 hidden 03 outputs 10\n" + rest, line_2},
        {header + "inputs 64 hidden 3 outputs 11\n" + rest, line_2},
        {header + "inputs 63 hidden 3 outputs 10\n" + rest, line_2},
        {header + std::string(1000, 'x') + "\n" + rest, line_2},
        {good.substr(0, good.size() - 1), "m: 947 bytes after line 2, must be 948 for this shape"},
        {good + "x", "m: 949 bytes after line 2, must be 948 for this shape"},
        {header + "inputs 64 hidden 4 outputs 10\n" + rest,
         "m: 948 bytes after line 2, must be 1248 for this shape"},
    };
    for (const Row& row : rows) {
        CAPTURE(row.bytes.substr(0, 80));
        CHECK(input_error_message([&] { decode_model(row.bytes, "m"); }) == row.message);
    }
}

TEST_CASE("a change of any byte of a model is noticed", "[model]") {
    const std::string good = small_model();
    for (std::size_t at = 0; at < good.size(); ++at) {
        std::string bad = good;
        bad[at] = static_cast<char>(bad[at] ^ 0x10);
        CAPTURE(at);
        REQUIRE_FALSE(input_error_message([&] { decode_model(bad, "m"); }).empty());
    }
}

TEST_CASE("a file is replaced whole and no temporary file stays", "[model]") {
    const TemporaryFolder folder;
    const std::string path = folder / "model";
    write_file_atomically(path, "first");
    write_file_atomically(path, small_model());
    CHECK(read_file(path, 10000) == small_model());
    CHECK(read_model(path).parameters == initial_parameters(kSmall, 1));
    CHECK(folder.entries() == 1);
    CHECK(input_error_message([&] { read_file(path, 100); }) == "'" + path + "' holds more than 100 bytes");
    write_file_atomically(path, "");
    CHECK(read_file(path, 0).empty());
}

TEST_CASE("a failed write leaves nothing behind and says why", "[model]") {
    const TemporaryFolder folder;
    const std::string path = folder / "taken";
    REQUIRE(::mkdir(path.c_str(), 0700) == 0);
    write_file_atomically(path + "/inside", "x");
    std::string message;
    try {
        write_file_atomically(path, "text");
    } catch (const std::system_error& error) {
        message = error.what();
    }
    CHECK(message == "cannot write '" + path + "': Is a directory");
    CHECK(folder.entries() == 1);
    CHECK_THROWS_AS(write_file_atomically(folder / "no/such/folder", "x"), std::system_error);
}

TEST_CASE("a place that cannot take a file is refused beforehand", "[model]") {
    const TemporaryFolder folder;
    CHECK(input_error_message([&] { require_writable_place(folder / "model"); }).empty());
    CHECK(input_error_message([] { require_writable_place("model"); }).empty());
    CHECK(input_error_message([] { require_writable_place("/"); }) == "'/' is a folder");
    const std::string missing = folder / "no";
    CHECK(input_error_message([&] { require_writable_place(missing + "/model"); }) ==
          "'" + missing + "/model' cannot be made: " + missing + ": No such file or directory");
    CHECK(folder.entries() == 0);
}

TEST_CASE("fingerprints are FNV-1a", "[model]") {
    struct Row {
        std::string text;
        std::string expected;
    };
    // From the reference test vectors of the algorithm's authors.
    const std::vector<Row> rows = {
        {"", "cbf29ce484222325"}, {"a", "af63dc4c8601ec8c"}, {"foobar", "85944171f73967e8"}};
    for (const Row& row : rows) {
        Fingerprint fingerprint;
        fingerprint.add_values(std::span<const char>(row.text));
        CHECK(hexadecimal(fingerprint.value()) == row.expected);
    }
    CHECK(hexadecimal(0x1f) == "000000000000001f");
}

}  // namespace
}  // namespace ddprun
