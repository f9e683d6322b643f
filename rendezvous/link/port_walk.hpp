// PortWalk: at which of several ports an agent looks for its job's coordinator next, and what it has met. Pure.
//
// A job whose user asked for no port by number is at the first one that was free on its host. Each port gets a call; where
// another job is, or another program, or nobody, the next one is called, round and round, with a growing pause before
// each round. The link of the agent asks.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace ddprun::inline job {

class PortWalk {
  public:
    static constexpr std::chrono::milliseconds kFirstPause{10};
    static constexpr std::chrono::milliseconds kLongestPause{1'000};

    // At least one port.
    PortWalk(std::uint16_t first, int count) : first_(first), met_(static_cast<std::size_t>(count)) {}

    std::uint16_t port() const { return static_cast<std::uint16_t>(first_ + next_); }
    std::vector<std::uint16_t> ports() const;

    // Nobody takes calls at port(), for this cause; or somebody does, and is `what` ("belongs to another job").
    void pass_nobody(const std::string& cause);
    void pass_stranger(const std::string& what);

    // Since the last pass.
    bool has_ended_round() const { return next_ == 0; }
    std::chrono::milliseconds pause() const;

    // Where the job was not found: one line.
    std::string text() const;

  private:
    void pass();

    std::uint16_t first_;
    std::size_t next_ = 0;
    std::chrono::milliseconds pause_{0};  // before the next round
    std::vector<std::string> met_;        // by port; empty: nobody, when it was called last
    std::string cause_;                   // of the last port where nobody is
};

}  // namespace ddprun::inline job
