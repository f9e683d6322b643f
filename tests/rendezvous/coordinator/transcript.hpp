// Transcripts: stories of a job as files that people read. A line is what happens (`2 hello`, `1 is killed`),
// or what a coordinator then says to whom, behind a `>`. Replaying one does what happens and gives the whole
// back as it was.
//
//     job 1:3                      how many nodes; `job 2 restarts 1` for a fixed number
//     N hello                      the agent N comes; the first one hosts. In an election: it tells what it
//                                  knows
//     N succeeded | failed C | signalled | gone      what its workers, or its user, do
//     N follows                    the coordinator that has asked for it
//     N is killed | is cut off     its connection ends, by its machine or without a word
//     N saw M die                  the connection between them was closed by the machine of M
//     N takes over                 from here on its coordinator is the one, which knows what N has heard
//     wait                         until something is said
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "rendezvous/link/job_memory.hpp"
#include "tests/support/coordinator_fixture.hpp"

namespace ddprun {

class Transcript {
  public:
    // The story again, with what is said now.
    static std::string replay(const std::string& story);

  private:
    void happen(const std::string& line);
    void act(int agent, const std::string& what);
    void begin_job(const std::string& terms);
    void say(int agent, ControlMessage message);
    void take(const Coordinator::Outbox& outbox);
    Hello hello_of(int agent) const;
    CoordinatorOptions options_of(int host) const;
    int round_of(int agent) const;

    std::vector<std::string> lines_;
    int nnodes_ = 1, min_nodes_ = 0, max_restarts_ = 0;
    TimePoint now_ = kStart;
    std::unique_ptr<Coordinator> coordinator_;
    bool elects_ = false;
    std::map<int, std::uint64_t> connections_;
    std::map<int, JobMemory> memories_;
    std::map<int, RoundReady> rounds_;  // the last of each
    std::map<int, int> epochs_;         // that they were asked to follow
    std::uint64_t last_connection_ = 0;
};

}  // namespace ddprun
