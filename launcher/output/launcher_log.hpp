// LauncherLog writes the launcher's own lines, on stderr behind kLauncherMark and in the file of --log-file.
//
// On stderr stand the lines that the verbosity lets through. The output pump writes them while there is one,
// so that they tear no worker's line; else they are written directly. A stderr that is closed or full loses
// lines, never the job. A stderr that takes nothing is waited for once, for kTimeout.
//
// In the file stand all lines, each by one write behind what is there. Several nodes may share the file:
//   2026-11-22 23:57:14.123 +00:00 node7 debug [4711] running -> stopping by worker_failed
// Lines that cannot be written are lost, which is said once. While there is a pump its thread writes, so that
// a file server that hangs does not hold up the agent.
//
// Much of what the lines tell comes from other machines, so all of it is made harmless here
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

    // Makes `pump`, which outlives its use, write from now on. nullptr: the LauncherLog writes directly, and
    // without the file if the pump hangs.
    void speak_by(OutputPump* pump);

    // Returns true if a line can be shown that is updated in place: stderr is a terminal, and not --quiet.
    bool can_update() const;

    // Shows a line that is updated in place, while there is a pump, cut to the terminal's width. An empty
    // text removes it. The file does not get it.
    void update(std::string_view text);

    // Writes each line of `text` as a line of its own, as all below do; an empty text writes none.
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
