// The handwritten digits: images of 8 x 8 pixels and what they show. apps/data/README.md has the file's form.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/distributed_sampler.hpp"

namespace ddprun::inline app {

inline constexpr int kImageSide = 8;
inline constexpr std::size_t kImagePixels = kImageSide * kImageSide;
inline constexpr int kMaxPixel = 16;
inline constexpr int kDigitClasses = 10;
inline constexpr std::size_t kTestEvery = 5;  // every 5th image is kept for testing

// The user's file or flag is wrong: one line that names the file (and line) or the flag and the value.
class InputError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

// The bytes of the file. Throws InputError if it cannot be read or holds more than 64 MiB, some 400,000 images.
std::string read_file(const std::string& path);

using Image = std::span<const float, kImagePixels>;

struct Digits {
    std::vector<float> pixels;         // kImagePixels for each image, scaled to 0 … 1
    std::vector<std::uint8_t> labels;  // 0 … kDigitClasses - 1

    std::size_t size() const { return labels.size(); }
    Image image(std::size_t index) const {
        return std::span(pixels).subspan(index * kImagePixels).first<kImagePixels>();
    }
};

// Throws InputError "<name>:<line>: <what is wrong>" at the first malformed line, and "<name>: …" if there are fewer than
// kTestEvery images. Lines end with \n or \r\n; the last may lack it.
Digits parse_digits(std::string_view text, const std::string& name);

struct DigitsSplit {
    Digits train;
    Digits test;  // images 5, 10, … of the file, counted from 1
};
DigitsSplit split_digits(const Digits& all);

// EpochImages decides which images of an epoch's steps are one rank's. An epoch passes over all images in the order of
// DistributedSampler, in steps of batch_size images over all ranks; the last step takes what is left.
class EpochImages {
  public:
    // `train` must outlive it. 0 <= rank < world_size.
    EpochImages(const Digits& train, std::size_t batch_size, std::uint64_t seed, int rank, int world_size)
        : train_(train),
          batch_size_(batch_size),
          rank_(static_cast<std::size_t>(rank)),
          world_size_(static_cast<std::size_t>(world_size)),
          sampler_(train.size(), world_size, rank, {.shuffle = true, .seed = seed}) {}

    std::size_t steps_per_epoch() const { return (train_.size() + batch_size_ - 1) / batch_size_; }
    std::size_t images_in(std::size_t step) const;  // over all ranks
    void begin_epoch(int epoch);                    // counted from 0; each has its own order

    // Shows this rank's images of a step.
    void visit(std::size_t step, const std::function<void(Image, std::uint8_t label)>& visit) const;

  private:
    const Digits& train_;
    std::size_t batch_size_;
    std::size_t rank_;
    std::size_t world_size_;
    DistributedSampler sampler_;
    std::vector<std::size_t> indices_;  // this rank's in the epoch
};

}  // namespace ddprun::inline app
