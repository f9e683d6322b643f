// HostStarts: the branches that one process starts, and the agents behind them as one. Used as HostStart is.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "launcher/start/host_start.hpp"

namespace ddprun::inline launch {

class HostStarts {
  public:
    HostStarts(const boost::asio::any_io_executor& executor, HostStartEvents events);

    // All at once.
    void begin(const StartPlan& whole, std::vector<std::vector<StartNode>> branches);

    void send(const DownMessage& message);
    // To the relay of this node alone, if that is the first of a branch.
    void send_to(int rank, const DownMessage& message);
    void hold(bool is_held);
    void kill();
    bool are_over() const;
    // No connection is being tried any more.
    bool are_settled() const;
    // The targets of those that are not over.
    std::vector<std::string> left() const;

  private:
    boost::asio::any_io_executor executor_;
    HostStartEvents events_;
    StartTools tools_;
    std::vector<std::unique_ptr<HostStart>> starts_;
    bool is_held_ = false;
};

}  // namespace ddprun::inline launch
