// The messages between agents and the coordinator. Plain values; control_wire.hpp gives their bytes.
//
// One conversation, from an agent's side:
//   Hello → Welcome → (Waiting | Parked)*
//         → (MemberList? → RoundReady → (WorkersSucceeded | WorkerFailed | AgentSignalled)? → (Stop → WorkersGone →
//         Restarting? → (Waiting | Parked)*)?)+ → RankEnds* → Finish → Goodbye
// or Refused at any time before the first RoundReady, GivenUp at any time, and LeaseOver as an agent's last word;
// PeerRefused and NodesDiffer may come to
// node 0. Heartbeats go to and fro from the Welcome on (see heartbeat.hpp); node 0's own agent gets neither. RankEnds also go before
// WorkersSucceeded and WorkersGone, and NoticeSignal goes both ways while a round runs. While it runs, and
// before what they may be the cause of, WorkerDying comes from an agent and PeerDying goes to the others;
// WorkerDying also directly behind WorkerFailed and Stop. RankSucceeded comes once in a round; WhoRuns may ask for
// StillRunning, and Remark go to node 0. JudgeFailure goes to the host's agent when all workers of a failed round are gone,
// and Judgement comes back.
//
// With one that would take over: Hello (with Following) → Welcome → (Lead → (RankEnds* → WorkersGone)? → Follow)+, and
// then as above from Stop on. Abdicated ends it, and the agent looks for another one. JobMoved is the only word of one
// that tells a coordinator which still gathers that its job runs elsewhere.
#pragma once

#include <variant>

#include "rendezvous/control/agent_message.hpp"
#include "rendezvous/control/coordinator_message.hpp"

namespace ddprun::inline job {

using ControlMessage =
    std::variant<Hello, WorkersSucceeded, WorkerFailed, WorkerDying, AgentSignalled, WorkersGone, RankEnds,
                 NoticeSignal, Heartbeat, Suspended, RankSucceeded, StillRunning, Judgement, LeaseOver,
                 Goodbye, Follow, JobMoved, Welcome, Lead, Abdicated, MemberGone, MemberList, GivenUp,
                 Refused, PeerRefused, NodesDiffer, Waiting, Parked, RoundReady, PeerDying, WhoRuns, Remark,
                 JudgeFailure, Stop, Restarting, Finish>;

}  // namespace ddprun::inline job
