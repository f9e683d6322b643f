// MessageSurroundings: what a messenger has from outside: news of other ranks, lines to ranks of other hosts,
// threads and their sleep, and copies from other processes. Nothing of it is called for a small message that
// is there.
#pragma once

#include <poll.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "collectives/call/call.hpp"
#include "collectives/messages/message_line.hpp"
#include "rendezvous/base/deadline.hpp"

namespace ddprun {
inline namespace detail {

// kLongestMessageSleep: the longest sleep that no event ends; it matters only where a peer is killed between
// its message and its ring of the bell. Deadlines that are later need wake no thread.
inline constexpr std::chrono::milliseconds kLongestMessageSleep{500};

// Copied: what became of a copy. What is unreadable may be memory that only the process itself can read.
enum class Copied { all, refused, unreadable };

class MessageSurroundings {
  public:
    virtual ~MessageSurroundings() = default;

    // verdict(), left_after(), declare() and on_news() are the Lifeline's: why the communicator has ended,
    // after which operation a rank has left, and what ends it now. `hook` is called at news of the first two,
    // on any thread, and must not block; empty: no more.
    virtual std::optional<Verdict> verdict() const = 0;
    virtual std::optional<std::uint64_t> left_after(int rank) const = 0;
    virtual Verdict declare(const Verdict& verdict) = 0;
    virtual void on_news(std::function<void()> hook) = 0;

    virtual std::unique_ptr<MessageLine> connect(int rank) = 0;
    // Copies from the memory of a process of this host.
    virtual Copied copy_from(std::int32_t pid, std::uint64_t place, void* out, std::size_t bytes) = 0;

    // Makes a thread that runs body(). Throws std::system_error.
    virtual void make_thread(std::function<void()> body) = 0;
    virtual void join_threads() = 0;
    // Sleeps until `bell` is rung, if it still has that count, or until `end`.
    virtual void sleep_on(const std::atomic<std::uint32_t>& bell, std::uint32_t count, Deadline end) = 0;
    virtual void poll(std::vector<pollfd>& descriptors, Deadline end) = 0;
    // Sleeps without the lock until call_all(); may also wake without cause.
    virtual void sleep_until_called(std::unique_lock<std::mutex>& lock) = 0;
    virtual void call_all() = 0;
    // Lets other threads have the CPU.
    virtual void yield() = 0;
};

}  // namespace detail
}  // namespace ddprun
