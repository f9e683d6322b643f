// Progress: shows how far a training has come, on rank 0.
//
// On a terminal one line is drawn over and over with a bar, and each finished epoch leaves its line above.
// Into a file or pipe only the lines of finished epochs are written. Writes to the given stream and flushes;
// no clock.
#pragma once

#include <cstddef>
#include <iosfwd>

#include "apps/train_digits/replica.hpp"

namespace ddprun::inline app {

enum class ProgressStyle {
    bar,    // for a terminal
    lines,  // for a file or pipe
    none,
};

inline constexpr std::size_t kBarCells = 30;

class Progress {
  public:
    // `out` must outlive it. epochs and steps_per_epoch are at least 1.
    Progress(std::ostream& out, ProgressStyle style, int epochs, std::size_t steps_per_epoch);

    // `step`, counted from 0, of `epoch`, counted from 0, is done. Draws only when the bar grows by a cell,
    // so that a terminal gets at most kBarCells writes for each epoch.
    void step_done(int epoch, std::size_t step);

    // "epoch  3/40  loss 0.123456  accuracy 0.9612"
    void epoch_done(int epoch, const EpochResult& result);

  private:
    std::ostream& out_;
    ProgressStyle style_;
    int epochs_;
    std::size_t steps_per_epoch_;
    std::size_t cells_ = 0;  // drawn in this epoch
};

}  // namespace ddprun::inline app
