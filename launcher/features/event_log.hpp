// The event log of --events, written by an EventFile, has what happens to an agent, as the EventStory tells
// it, in a file of lines.
//
// The file is open from the start on. EventFile writes it by a thread of its own behind a bounded queue, so
// that neither a full disk nor a file server that hangs holds up the agent: lines are lost then, which is
// said once. Used by one thread, the agent's. The other thread is there from start() on, so that a launcher
// may fork before.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "launcher/agent/feature.hpp"
#include "launcher/appended_file.hpp"

namespace ddprun {
inline namespace launch {

struct EventLogOptions {
    std::string path;  // --events; empty: no file
    // file: what open_event_log() has opened, shared by all copies of these options; taken by the feature.
    std::shared_ptr<AppendedFile> file;
};

class EventFile {
  public:
    // kMaxWaiting: how many bytes may wait for the thread; that is more than the ends of all workers of a
    // large node.
    static constexpr std::size_t kMaxWaiting = 8 * 1024 * 1024;
    // kCloseTimeout: how long close() waits for what is left to be written.
    static constexpr std::chrono::milliseconds kCloseTimeout{2000};

    explicit EventFile(AppendedFile file, std::size_t max_waiting = kMaxWaiting);
    EventFile(const EventFile&) = delete;
    EventFile& operator=(const EventFile&) = delete;
    // Closes the file without a word.
    ~EventFile();

    // Starts the thread, which writes what is appended. Once is enough.
    void start();

    // Takes whole lines, or nothing; never waits.
    void append(std::string_view lines);

    // Returns what is to be said since lines are lost; once.
    std::optional<std::string> take_trouble();

    // Waits until all is written, but not longer than the timeout; then nothing is written any more. Returns
    // what take_trouble() does.
    std::optional<std::string> close(std::chrono::milliseconds timeout = kCloseTimeout);

    // Forgets what waits and what comes: nothing is written. Called only before start().
    void forget();

  private:
    struct Queue;

    static void write_all(Queue& queue);

    std::shared_ptr<Queue> queue_;  // also the thread's, which may hang when this object ends
    std::thread writer_;
    bool is_closed_ = false;
};

// Opens the file, if something is to be written. Returns what is wrong.
std::optional<std::string> open_event_log(FeatureOptions& options, const EarlyFacts& facts);

// Makes the feature, which tells its agent of each event (EventTold) when it hears an EventTold without
// lines, and of each at once where there is a file, to which it writes them; what was done before there was
// an agent it writes at once.
std::unique_ptr<Feature> make_event_log(const FeatureInputs& inputs);

}  // namespace launch
}  // namespace ddprun
