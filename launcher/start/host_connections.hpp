// HostConnections are the branches that one process starts, used as one; the rules are those of
// HostConnection.
#pragma once

#include <boost/asio/any_io_executor.hpp>

#include <memory>
#include <string>
#include <vector>

#include "launcher/start/host_connection.hpp"
#include "launcher/start/start_tree.hpp"

namespace ddprun {
inline namespace launch {

class HostConnections {
  public:
    HostConnections(const boost::asio::any_io_executor& executor, HostEvents events);

    // Begins all branches at once.
    void begin(const StartPlan& whole, std::vector<std::vector<StartNode>> branches);

    void send(const DownMessage& message);
    // Tells the relay of this node alone, if the node is the first of a branch.
    void send_to(int rank, const DownMessage& message);
    void hold(bool is_held);
    void kill();
    bool are_over() const;
    // Returns true if no connection is being tried any more.
    bool are_settled() const;
    // Returns the targets of the branches that are not over.
    std::vector<std::string> left() const;

  private:
    boost::asio::any_io_executor executor_;
    HostEvents events_;
    ConnectionTools tools_;
    std::vector<std::unique_ptr<HostConnection>> starts_;
    bool is_held_ = false;
};

}  // namespace launch
}  // namespace ddprun
