// Names of hosts, as this machine's resolver knows them.
//
// A name server that does not answer takes the system's resolver its own time, several times over, and
// nothing ends that. So each question has a thread of its own, which is left to itself where nobody waits for
// it any more: neither an answer nor the end of the program is ever later for it.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

namespace ddprun {
inline namespace base {

// kResolverTimeout is the longest that somebody waits for one answer.
inline constexpr std::chrono::seconds kResolverTimeout{10};

// Resolved is what a name stands for: numeric addresses, each once; or a sentence why there are none.
using Resolved = std::variant<std::vector<std::string>, std::string>;

// no_answer_within says that nothing came in that time.
std::string no_answer_within(std::chrono::milliseconds timeout);

// Resolves a name; a numeric address is one without a question. Blocking; any thread.
Resolved resolve_host(const std::string& host, std::chrono::milliseconds timeout = kResolverTimeout);

// Does the same without blocking, for as long as the caller waits: may be cancelled at any time.
boost::asio::awaitable<Resolved> async_resolve_host(std::string host);

// LateName waits until a name is known to the resolver, as a pod's is only a while after the pod runs.
//
// Owned by an agent, on the thread of `executor`; nothing blocks. No event tells when a server learns a name,
// so this is one of the few places that poll.

class LateName {
  public:
    static constexpr std::chrono::milliseconds kPause{1'000};

    // Asks at once, and again after each pause, until the name stands for an address; then `on_known` is
    // called, once: `is_here` if one of them is this machine's.
    LateName(const boost::asio::any_io_executor& executor, const std::string& name,
             std::function<void(bool is_here)> on_known, std::chrono::milliseconds pause = kPause);
    // Nothing is called afterwards.
    ~LateName();

  private:
    class Impl;
    std::shared_ptr<Impl> impl_;
};

}  // namespace base
}  // namespace ddprun
