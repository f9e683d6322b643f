// The frame of a program that trains on the digits: its command line, its checks that all ranks agree, its model file and
// what rank 0 prints. The training itself is main.cpp's, or that of train_digits_gpu.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "apps/train_digits/replica.hpp"
#include "collectives/communicator.hpp"

namespace ddprun::inline app {

struct Options {
    std::string data;
    TrainingPlan plan;
    std::string save;      // empty: do not save; matters on rank 0 only
    std::string evaluate;  // empty: train
    bool quiet = false;
};

// The command line asks for no work: --help and --version (exit code 0, text for stdout), or it is wrong (2, one line for
// stderr that names the flag and the value).
struct CommandLineEnd {
    int exit_code = 0;
    std::string text;
};

// `arguments` are without the program's name. Pure.
std::variant<Options, CommandLineEnd> parse_options(std::vector<std::string> arguments);

// FNV-1a of the bytes: equal bits have equal fingerprints, and different ones hardly ever.
std::uint64_t fingerprint_of(std::span<const std::byte> bytes);

// A model file is one line, "ddprun-digits-model 2 <units in the hidden layer> <fingerprint of the parameters>", and the
// parameters as they are in memory.
struct Model {
    MlpShape shape;
    std::vector<float> parameters;
    std::uint64_t fingerprint() const { return fingerprint_of(std::as_bytes(std::span(parameters))); }
};
std::string encode_model(const Model& model);
// Throws InputError "<name>: …" unless the bytes are one whole model.
Model decode_model(const std::string& bytes, const std::string& name);

// Rank 0 prints "epoch  3/40  loss 0.123456  accuracy 0.9612". Throws if the loss is no longer a finite number.
void show_epoch(const Options& options, int rank, int epoch, const EpochResult& result);

inline constexpr int kWorldFailed = 1;
inline constexpr int kBadInput = 2;

// A Train makes all passes, calls show_epoch after each, and returns the trained parameters. The communicator is for
// buffers of the host. Time counts from `started`, which it may set anew.
using Train = std::function<std::vector<float>(Communicator&, const Digits& train, const Options&,
                                               std::chrono::steady_clock::time_point& started)>;

// The whole program; returns its exit code. What goes wrong is one line on stderr: InputError is kBadInput, else
// kWorldFailed: another rank is lost, ranks disagree, the training fails or a result cannot be written.
int run_program(const std::string& program, std::vector<std::string> arguments, const Train& train);

}  // namespace ddprun::inline app
