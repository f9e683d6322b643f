#include "apps/train_digits/progress.hpp"

#include <fmt/core.h>

#include <ostream>
#include <string>

namespace ddprun::inline app {

namespace {

constexpr const char* kEraseLine = "\r\x1b[K";

// "epoch  3/40": the number is as wide as the last one, so that the lines stand in columns.
std::string epoch_title(int epoch, int epochs) {
    return fmt::format("epoch {:>{}}/{}", epoch + 1, std::to_string(epochs).size(), epochs);
}

}  // namespace

Progress::Progress(std::ostream& out, ProgressStyle style, int epochs, std::size_t steps_per_epoch)
    : out_(out), style_(style), epochs_(epochs), steps_per_epoch_(steps_per_epoch) {}

void Progress::step_done(int epoch, std::size_t step) {
    if (style_ != ProgressStyle::bar) return;
    const std::size_t cells = (step + 1) * kBarCells / steps_per_epoch_;
    if (cells == cells_) return;
    cells_ = cells;
    out_ << kEraseLine << epoch_title(epoch, epochs_) << "  [" << std::string(cells, '#')
         << std::string(kBarCells - cells, '.') << "]" << std::flush;
}

void Progress::epoch_done(int epoch, const EpochResult& result) {
    cells_ = 0;
    if (style_ == ProgressStyle::none) return;
    if (style_ == ProgressStyle::bar) out_ << kEraseLine;
    out_ << epoch_title(epoch, epochs_)
         << fmt::format("  loss {:.6f}  accuracy {:.4f}\n", result.loss, result.accuracy) << std::flush;
}

}  // namespace ddprun::inline app
