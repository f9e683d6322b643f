// MeetingPlace: where an agent would host the coordinator if the one it has is lost. It listens from the time the agent
// joins, so that it can be told to all, but nobody answers there: who calls early waits, and a refused call shows that
// the agent is not there any more. Owned and used by RendezvousLink, on the agent's thread.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <string>
#include <vector>

#include "rendezvous/control/agent_message.hpp"
#include "rendezvous/net/port_range.hpp"
#include "rendezvous/system/owned_descriptor.hpp"

namespace ddprun::inline job {

class MeetingPlace {
  public:
    // Listens on loopback and at this address of this machine, at a free port: the job's own may be wanted there by
    // another job. Anew if it was another address before. Where the system refuses nobody can meet there, and what is
    // wrong is returned, once; else nothing.
    std::string open(const boost::asio::any_io_executor& executor, const std::string& address,
                     const FreePorts& free_ports);

    // Where the others are to call, as this agent's first word tells them; port 0: nowhere.
    void tell_in(Hello& hello) const;

    // The listening sockets once more, for who hosts there.
    std::vector<OwnedDescriptor> sockets();

  private:
    std::string address_;
    std::string trouble_;
    std::vector<boost::asio::ip::tcp::acceptor> acceptors_;
};

}  // namespace ddprun::inline job
