// LateName waits until a name is known to the resolver, as a pod's is only a while after the pod runs.
//
// Owned by an agent, on the thread of `executor`. The resolver is asked by a thread of Asio's, so nothing here blocks. No
// event tells when a server learns a name, so this is one of the few places that poll.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <string>

namespace ddprun::inline base {

class LateName {
  public:
    static constexpr std::chrono::milliseconds kPause{1'000};

    // Asks at once, and again after each pause, until the name stands for an address; then `on_known` is called, once:
    // `is_here` if one of them is this machine's.
    LateName(const boost::asio::any_io_executor& executor, const std::string& name,
             std::function<void(bool is_here)> on_known, std::chrono::milliseconds pause = kPause);
    // Nothing is called afterwards.
    ~LateName();

  private:
    class Impl;
    std::shared_ptr<Impl> impl_;
};

}  // namespace ddprun::inline base
