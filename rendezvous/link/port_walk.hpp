// PortWalk says at which port an agent looks next, and what it has met. A job without a given port is at the
// first one that was free on its host. Each port gets a call. Where another job is, or another program, or
// nothing, the next one is called, round and round, with a growing pause before each round. Pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace ddprun {
inline namespace job {

class PortWalk {
  public:
    static constexpr std::chrono::milliseconds kFirstPause{10};
    static constexpr std::chrono::milliseconds kLongestPause{1'000};

    // PortWalk over `count` ports, which is one at least.
    PortWalk(std::uint16_t first, int count) : first_(first), met_(static_cast<std::size_t>(count)) {}

    std::uint16_t port() const { return static_cast<std::uint16_t>(first_ + next_); }
    std::vector<std::uint16_t> ports() const;

    // Passes port(), where nothing takes calls, for this cause. pass_stranger(): where the listener is `what`
    // ("belongs to another job").
    void pass_nobody(const std::string& cause);
    void pass_stranger(const std::string& what);

    // Returns whether every port was called since the round began.
    bool has_ended_round() const { return next_ == 0; }
    std::chrono::milliseconds pause() const;

    // Returns in one line where the job was not found.
    std::string text() const;

  private:
    void pass();

    std::uint16_t first_;
    std::size_t next_ = 0;
    std::chrono::milliseconds pause_{0};  // before the next round
    std::vector<std::string> met_;        // by port; empty: nothing, when it was called last
    std::string cause_;                   // of the last port where nothing takes calls
};

}  // namespace job
}  // namespace ddprun
