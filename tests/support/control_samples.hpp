// One control message of every type, in the order of the types, with something in every member.
#pragma once

#include <vector>

#include "rendezvous/control/control_message.hpp"

namespace ddprun {

inline Failure sample_failure() {
    Failure failure{.kind = Failure::Kind::worker_failed, .node_rank = 3, .host = "gpu03"};
    failure.rank = 12;
    failure.local_rank = 4;
    failure.pid = 4'000'000;
    failure.exit_code = 139;
    failure.signal = 11;
    failure.core_dumped = true;
    failure.unix_time_ms = 1'700'000'000'123;
    failure.error_message = "ValueError: x";
    failure.traceback = "File a, line 1\n";
    failure.hint = "raise --shm-size";
    failure.last_lines = {"one", "", "three"};
    failure.witness = 2;
    failure.accusation = "does not answer";
    failure.testimony = "all_reduce: rank 12 does not answer";
    failure.others = {{{{0, 2}, {4, 15}}, RanksDoing::Manner::waited, "waited in all_reduce (train.py:140)"}};
    failure.left = {{{{3, 3}}, RanksDoing::Manner::stood, "slept in next_batch (data.py:88)"}};
    failure.message = "a \"quoted\" line\nand a second, with \xff no valid UTF-8";
    return failure;
}

inline RankEnd sample_end() {
    RankEnd end{.rank = 3, .local_rank = 1, .node_rank = 1, .host = "gpu01", .pid = 99, .exit_code = 143};
    end.signal = 15;
    end.outlasted_grace = true;
    end.manner = RankEnd::Manner::stopped;
    end.wall_ms = 123'456;
    return end;
}

inline MemberList sample_members() {
    MemberList list{
        .epoch = 2, .round = 5, .job_id = "none-ab12", .size = 3, .host_rank = 1, .heartbeat_ms = 5000};
    list.grace_ms = 30'000;
    list.members = {{1, 2, "gpu01", 99, 1, 8, "10.0.0.1", 29500},
                    {0, 0, "gpu00", 98, 0xffff'ffff'ffff'fffe, 4, "10.0.0.7", 0}};
    list.restart_count = 1;
    list.resizes = 2;
    list.restarts = {{0, "rank 1 failed", 1'700'000'000'000}};
    list.resize_list = {{1, "a node (gpu02) has come", 1'700'000'000'000}};
    return list;
}

inline Hello sample_hello() {
    Hello hello{.version = DDPRUN_VERSION,
                .run_id = "none",
                .node_rank = 1,
                .nnodes = 2,
                .local_world_size = 8,
                .host = "gpu01",
                .pid = 4711,
                .nonce = 0xffff'ffff'ffff'fffe};
    hello.command = describe_command({"train.py", "--lr", "0.1"});
    hello.allow_different = true;
    hello.reached_at = "10.0.0.1";
    hello.traits = {{"NCCL_DEBUG", "INFO"}, {"the executable", "/bin/train", true}};
    hello.list_position = 7;
    hello.list_size = 9;
    hello.rank_order = "s0.s4.gpu07";
    hello.unfit = "folder /tmp: is full; make room";
    hello.addresses = {"10.0.0.2", "fd00::2"};
    hello.following = Following{
        .last = sample_members(), .group_rank = 2, .claim = 3, .cause = sample_failure(), .dead = {0}};
    return hello;
}

inline std::vector<ControlMessage> sample_messages() {
    RoundReady ready{
        .round = 2, .job_id = "none-ab12", .group_rank = 1, .group_world_size = 2, .base_rank = 8};
    ready.world_size = 16;
    ready.role_base_rank = 8;
    ready.role_world_size = 16;
    ready.restart_count = 1;
    ready.max_restarts = 3;
    ready.restart_reason = "rank 1 failed";
    ready.reached_at = "10.0.0.1";
    const PeerRefused peer_refused{"gpu07", 4711, "--node-rank 1 has already joined"};
    Finish finish{.exit_code = 139, .cause = sample_failure(), .message = "no restart"};
    finish.others = {sample_end()};
    finish.failed_too = 1;
    finish.restarts = {{0, "rank 1 failed", 1'700'000'000'000}};
    finish.resizes = {{1, "a node (gpu02) has come", 1'700'000'000'000}};
    finish.unknown_nodes = {"node 1 (gpu07)"};
    finish.unknown_node_count = 3;
    return {sample_hello(),
            WorkersSucceeded{2},
            WorkerFailed{2, sample_failure()},
            WorkerDying{2, 12, 0xffff'ffff'ffff'fffe, true},
            AgentSignalled{2, 15, "the time is over"},
            WorkersGone{2, true, true, sample_failure(), sample_failure().others, sample_failure().left},
            RankEnds{2, {sample_end(), sample_end()}},
            NoticeSignal{2, 10, true},
            Heartbeat{3, 2},
            Suspended{},
            RankSucceeded{2, 12},
            StillRunning{2, 3, {{4, 5}, {7, 7}}, 4711},
            Judgement{2, Judgement::Answer::exclude, 3},
            LeaseOver{},
            Goodbye{},
            Follow{3},
            JobMoved{"0.1.0", "none", 4, 2, 77, "10.0.0.2", 29500},
            Welcome{5000, "10.0.0.2"},
            Lead{3},
            SteppedDown{"no majority", 1, 2, {0, 2}},
            MemberGone{1, 2, 1},
            sample_members(),
            GivenUp{"no heartbeat for 5 s"},
            Refused{"no", 77},
            peer_refused,
            NodesDiffer{{"nodes differ in NCCL_DEBUG", "nodes differ in OMP_NUM_THREADS"}},
            Waiting{1, 3, {1, 2}, {"node 0 (gpu00)"}, 4, 30'000, {"gpu01", "gpu02"}, 2},
            Parked{"the job has its 2 nodes"},
            ready,
            PeerDying{2, 17},
            WhoRuns{2},
            Remark{"they still run"},
            JudgeFailure{2, sample_failure()},
            Stop{2, sample_failure()},
            Restarting{sample_failure(), 1, 3, 500, 2, 4},
            finish,
            Question{7, "status", "of all", 1, 5},
            Answer{7, 3, "gpu03", 24, 8, 8, false, "{\"state\":\"running\"}", "late"}};
}

}  // namespace ddprun
