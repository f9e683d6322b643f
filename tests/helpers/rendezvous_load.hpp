// What a thousand agents, or ten thousand store clients, ask of one rendezvous port, and what doors lead
// there. The loads of the program rendezvous_load, which scripts/bench_rendezvous.py and bench_door.py start
// beside a server in a process of its own.
//
// Each is one thread (and one for each door). It prints a line of `name=value` words when a step is done;
// times are milliseconds. Anything that a working server does not do (a reset, an end, a refusal) is thrown.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "rendezvous/net/endpoint.hpp"
#include "rendezvous/system/secret_key.hpp"

namespace ddprun {

using LoadClock = std::chrono::steady_clock;

// A connection may take this long: no measure, but a guard against a server that does not answer.
inline constexpr std::chrono::seconds kLoadTimeout{60};

// The agents of all nodes of one job join, run its one round, whose workers end at once with 0, and leave.
// Before `ready` is printed all have heard that the round begins; after it they answer heartbeats until a
// line comes on the standard input.
void load_agents(const Endpoint& server, int count);

// Clients connect, say what PyTorch's do, count themselves under one key and wait for another, which the last
// one sets. After `ready` they stay, idle, until the standard input ends. Where there are several ports, each
// has as many.
void load_clients(const std::vector<Endpoint>& servers, int count);

// So many doors of agents on other nodes, whose secret is the server's; `ready` says their ports. Until the
// standard input ends.
void load_doors(const Endpoint& server, int count);

// So many clients of the store at each port, each with one request under way. For each line `PORT OPERATION
// COUNT` of the standard input, where PORT is 0 for the first one, those of that port do the operation so
// often each.
void load_questions(const std::vector<Endpoint>& servers, int count);

// One door with so many clients that ask for the same value at once. For each line `CLIENTS COUNT` of the
// standard input so many of them do that so often, all in one record each time.
void load_record(const Endpoint& server, int clients);

// The job's, of the server and its doors.
SecretKey load_secret();

// Writes the line at once.
void print_line(const std::string& line);

double milliseconds_between(LoadClock::time_point begin, LoadClock::time_point end);

// Whoever runs this is told once when there is a line on the standard input, or its end.
class StandardInput {
  public:
    explicit StandardInput(boost::asio::io_context& context);
    void async_wait(std::function<void()> handler);

  private:
    boost::asio::posix::stream_descriptor descriptor_;
};

}  // namespace ddprun
