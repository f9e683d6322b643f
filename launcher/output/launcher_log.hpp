// LauncherLog writes the launcher's own lines, on stderr behind kLauncherMark and in the file of --log-file.
//
// On stderr stand those that the verbosity lets through: by way of the output pump while there is one, so
// that they tear no worker's line, else directly. One that is closed or full loses lines, never the job; one
// that takes nothing is waited for once, for kTimeout.
//
// In the file stand all of them, each by one write behind what is there, which several nodes may share:
//   2026-11-22 23:57:14.123 +00:00 node7 debug [4711] running -> stopping by worker_failed
// Lines that cannot be written are lost; that is said once. While there is a pump its thread writes, so that
// a file server that hangs does not keep the agent.
//
// Much of what they tell comes from other machines, so all of it is made harmless here
// (launcher/harmless_text.hpp).
//
// Created in main and handed down; used on the agent's thread.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun {
inline namespace launch {

class OutputPump;

// Verbosity is what the launcher says besides errors and the report: nothing, what keeps it from the other
// nodes, what the user waits for, everything it does.
enum class Verbosity { quiet, troubles, usual, verbose };

class LauncherLog {
  public:
    static constexpr std::chrono::milliseconds kTimeout{2000};

    explicit LauncherLog(Verbosity verbosity = Verbosity::usual);
    ~LauncherLog();

    void set_verbosity(Verbosity verbosity);

    // Makes the file of --log-file, for its owner alone, or opens it. Returns what is wrong, in one line that
    // names the flag.
    std::optional<std::string> open_file(const std::string& path, const std::string& host);

    // Has this pump write from now on, which outlives that; nullptr: it writes directly, and without the file
    // if the pump hangs.
    void speak_by(OutputPump* pump);

    // True if a line can be shown that is brought up to date in place: stderr is a terminal, and not --quiet.
    bool can_update() const;

    // Shows that line, while there is a pump, cut to the terminal's width; empty: it goes. It is not in the
    // file.
    void update(std::string_view text);

    // Each line of `text` becomes a line of its own; an empty text is none.
    void error(std::string_view text);
    void warn(std::string_view text);     // shown in any case, like errors
    void info(std::string_view text);     // not with --quiet
    void trouble(std::string_view text);  // nor without Verbosity::troubles or more
    void debug(std::string_view text);    // with --verbose only

  private:
    class Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace launch
}  // namespace ddprun
