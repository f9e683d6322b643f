// resolve_host() and async_resolve_host() ask this machine's resolver for a host's addresses.
//
// A name server that does not answer takes the system's resolver long, several times over, and nothing ends
// that call. Each question therefore has a thread of its own, which is abandoned once its answer is no longer
// wanted. The thread delays neither a caller nor the end of the program.
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

// kResolverTimeout is the longest wait for one answer.
inline constexpr std::chrono::seconds kResolverTimeout{10};

// Resolved is what a name stands for: numeric addresses, each once, or a sentence that says why there are
// none.
using Resolved = std::variant<std::vector<std::string>, std::string>;

// Returns the sentence that says that no answer came in that time.
std::string no_answer_within(std::chrono::milliseconds timeout);

// Resolves a name; a numeric address is returned without a question. Blocking; any thread.
Resolved resolve_host(const std::string& host, std::chrono::milliseconds timeout = kResolverTimeout);

// Resolves a name without blocking and without a timeout of its own. May be cancelled at any time.
boost::asio::awaitable<Resolved> async_resolve_host(std::string host);

// LateName waits until the resolver knows a name, as a pod's only a while after the pod runs.
//
// Owned by an agent, on the thread of `executor`; nothing blocks. No event tells when a server learns a name,
// so LateName polls.
class LateName {
  public:
    static constexpr std::chrono::milliseconds kPause{1'000};

    // Asks at once, and again after each pause, until the name stands for an address. Then calls `on_known`
    // once; `is_here` says whether one of the addresses is this machine's.
    LateName(const boost::asio::any_io_executor& executor, const std::string& name,
             std::function<void(bool is_here)> on_known, std::chrono::milliseconds pause = kPause);
    // Ends the search; `on_known` is not called afterwards.
    ~LateName();

  private:
    class Impl;
    std::shared_ptr<Impl> impl_;
};

}  // namespace base
}  // namespace ddprun
