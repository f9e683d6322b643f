// Console: the launcher's own lines, on stderr, each with "ddprun: " in front.
//
// Created in main and handed down; used on the agent's thread. A stderr that is closed or full loses lines,
// never the job: one that takes nothing is waited for once, for kPatience. The workers' output does not pass
// through here.
#pragma once

#include <chrono>
#include <memory>
#include <string_view>

namespace ddprun {

class Console {
  public:
    static constexpr std::chrono::milliseconds kPatience{2000};

    Console();
    ~Console();

    // Each line of `text` becomes a line of its own, written and flushed at once.
    void say(std::string_view text);

  private:
    class Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace ddprun
