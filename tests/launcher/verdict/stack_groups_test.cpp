#include "launcher/verdict/stack_groups.hpp"
#include "launcher/verdict/judge.hpp"

#include <boost/json.hpp>

#include "launcher/rank_set.hpp"
#include "launcher/verdict/sentence.hpp"
#include "tests/launcher/verdict/observed.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

std::vector<Observation> look_of_16() {
    const Observed made(Program::own_backend);
    std::vector<Observation> look;
    for (int rank = 0; rank < 16; ++rank)
        look.push_back(rank == 3 ? made.away(3, WaitKind::file, "next_batch", "/mnt/shards/0113.tar")
                                 : made.meets(rank));
    return look;
}

const StacksTaking kTaking{.id = "train-7f3a",
                           .taken_unix_ms = 131'000,
                           .took_ms = 12,
                           .ranks_asked = 16,
                           .quiet_since_unix_ms = 100'000};

}  // namespace

TEST_CASE("stacks: equal ones once, the smallest group first") {
    auto look = look_of_16();
    look[5].why_unreadable = "process 12 has ended";
    look[5].wait.reset();
    const auto groups = stack_groups(look);
    REQUIRE(groups.size() == 2);
    CHECK(groups[0].ranks == std::vector<int>{3});
    CHECK(groups[0].kind == WaitKind::file);
    CHECK(groups[0].object == "/mnt/shards/0113.tar");
    CHECK(groups[0].where->function == "next_batch");
    CHECK(groups[1].ranks == std::vector<int>{0, 1, 2, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15});
    CHECK(groups[1].kind == WaitKind::collective);

    look[4].frames[0].line += 1;
    CHECK(stack_groups(look).size() == 3);
    look[6].wait->object = "another";
    CHECK(!stack_groups(look).back().object);
    CHECK(stack_groups({}).empty());
}

TEST_CASE("stacks: as people see them") {
    const auto look = look_of_16();
    const std::string text =
        stacks_text(kTaking, look, judge(look, {.quiet = std::chrono::seconds(31), .limit = {}}));
    CHECK(
        text ==
        "train-7f3a  HANGS since 31 s:  rank 3 (gpu07) waits for a file system in next_batch (data.py:88), "
        "/mnt/shards/0113.tar;\n"
        "            ranks 0-2,4-15 wait in all_reduce (train.py:140), call 41,201, for 31 s\n"
        " why: no progress for 31 s\n"
        "     1 rank   3         clock_nanosleep < next_batch data.py:88 < _next_data dataloader.py:671 < main "
        "train.py:151 < <module> train.py:160 < run __init__.py:346\n"
        "    15 ranks  0-2,4-15  epoll_wait < all_reduce distributed_c10d.py:2810 < wrapper c10d_logger.py:81 < "
        "step train.py:140 < main train.py:151 < <module> train.py:160 < run __init__.py:346\n");
}

TEST_CASE(
    "stacks: all native frames and threads where they are asked for; what was not read; nothing harmful") {
    auto look = look_of_16();
    look[3].threads = {{77, "pt\x1b[2J", wait_of(WaitKind::poll), {native("poll", "/lib/libc.so.6")}}};
    look[7].why_unreadable = "kernel.yama.ptrace_scope is 2";
    look[8].frames.assign(40, python("f", "/x.py", 1));
    look[9].frames.clear();
    look[2].frames[0].function = "\x1b]0;title\a";
    StacksTaking taking = kTaking;
    const HangVerdict none;
    CHECK(stacks_text(taking, look, none).find("train-7f3a\n") == 0);
    CHECK(stacks_text(taking, look, none).find(" < 28 more\n") != std::string::npos);
    CHECK(stacks_text(taking, look, none).find("ddprun::TcpBackend::run") == std::string::npos);
    CHECK(stacks_text(taking, look, none).find("(collective)\n") != std::string::npos);
    taking.native = taking.threads = true;
    const std::string text = stacks_text(taking, look, none);
    CHECK(text.find(" < ddprun::TcpBackend::run < ") != std::string::npos);
    CHECK(text.find("rank 7 was not read: kernel.yama.ptrace_scope is 2\n") != std::string::npos);
    CHECK(text.find(" rank 3, process 1003\n") != std::string::npos);
    CHECK(text.find("waits for an event: poll\n") != std::string::npos);
    CHECK(text.find_first_of("\x1b\a") == std::string::npos);
}

TEST_CASE("stacks: JSON of schema 1") {
    auto look = look_of_16();
    look[15].why_unreadable = "no answer";
    look[15].wait.reset();
    look[3].threads = {{77, "pt_data", wait_of(WaitKind::poll), {native("poll", "/lib/libc.so.6")}}};
    const HangVerdict verdict = judge(look, {.quiet = std::chrono::seconds(31), .limit = {}});
    look[0].call = CollectiveCall{"all_reduce", "a1", 12, 31'250, {3, 15}};
    look[1].call = CollectiveCall{"barrier", "a1", 11, {}, {}};
    const auto object = stacks_json(kTaking, look, verdict);
    std::string names;
    for (const auto& member : object) names += std::string(member.key()) + " ";
    CHECK(names ==
          "schema id taken_unix_ms took_ms ranks_asked ranks_answered groups calls failed verdict nccl ");
    CHECK(object.at("schema") == 1);
    CHECK(object.at("ranks_answered") == 15);
    CHECK(object.at("nccl").is_null());
    const auto& group = object.at("groups").at(0).as_object();
    CHECK(boost::json::serialize(group.at("ranks")) == "[3]");
    CHECK(group.at("kind") == "file");
    CHECK(group.at("object") == "/mnt/shards/0113.tar");
    CHECK(boost::json::serialize(group.at("where")) ==
          R"({"function":"next_batch","file":"/proj/data.py","line":88,"native":false})");
    CHECK(group.at("frames").at(0).at("native") == true);
    CHECK(group.at("source") == "python");
    CHECK(object.at("groups").at(1).at("object").is_null());
    CHECK(
        boost::json::serialize(object.at("calls").at(0)) ==
        R"({"rank":0,"number":12,"operation":"all_reduce","group":"a1","since_s":3.125E1,"awaits":[3,15]})");
    CHECK(object.at("calls").at(1).at("since_s").is_null());
    CHECK(boost::json::serialize(object.at("failed")) == R"([{"rank":15,"why":"no answer"}])");
    const auto& told = object.at("verdict").as_object();
    CHECK(told.at("kind") == "hang");
    CHECK(told.at("since_unix_ms") == 100'000);
    CHECK(told.at("age_s") == 31.0);
    CHECK(boost::json::serialize(told.at("suspects")) == "[3]");
    CHECK(told.at("sentence").as_string() == verdict.sentence.c_str());
    CHECK(told.at("evidence").as_array().size() == verdict.evidence.size());
    CHECK(stacks_json(kTaking, look, HangVerdict{}).at("verdict").is_null());
    StacksTaking taking = kTaking;
    taking.threads = true;
    look[2].frames.resize(300, look[2].frames[0]);
    const auto details = stacks_json(taking, look, verdict).at("ranks_detail").as_array();
    REQUIRE(details.size() == 16);
    CHECK(details[3].at("rank") == 3);
    CHECK(details[3].at("threads").at(0).at("wait").at("kind") == "poll");
}

TEST_CASE("stacks: ranks are told as a set that options read") {
    CHECK(named_ranks({4}) == "rank 4");
    CHECK(named_ranks({0, 1, 2, 9}) == "ranks 0-2,9");
    const auto set = parse_rank_set(named_ranks({0, 1, 2, 9}).substr(6));
    CHECK(std::get<RankSet>(set).contains(9));
}

}  // namespace ddprun
