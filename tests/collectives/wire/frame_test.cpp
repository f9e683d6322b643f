#include "collectives/wire/frame.hpp"

#include <random>

#include "collectives/liveness/lifeline_state.hpp"
#include "collectives/wire/membership.hpp"
#include "tests/support/catch.hpp"

using namespace ddprun;

namespace {

std::span<const std::byte> bytes_of(const std::string& text) {
    return std::as_bytes(std::span(text.data(), text.size()));
}

std::vector<Notice> some_notices() {
    return {Verdict{CollectiveErrorCode::peer_died, {2, 5}, "rank 2 died"},
            Verdict{CollectiveErrorCode::aborted, {}, ""},
            LeftNotice{3, 77},
            InquiryNotice{9},
            ProgressNotice{1, 9, {Operation::broadcast, DataType::i64, ReduceOp::max, 4, 1000, 12}},
            QuestionNotice{2, 3, {Operation::reduce, DataType::u8, ReduceOp::prod, 1, 7, 13}},
            QuestionNotice{
                2, 4, {Operation::all_reduce, DataType::f32, ReduceOp::avg, -1, 7, 14, Compression::f16}}};
}

}  // namespace

TEST_CASE("a LinkHello comes back as it went", "[frame]") {
    const LinkHello hello{Channel::data, 3, 2, 5, 6, {1, 2, 3, 255}, 3};
    REQUIRE(decode_hello(encode(hello)) == hello);
    LinkHello with_key = hello;
    with_key.challenge = Nonce{7, 8, 9};
    REQUIRE(decode_hello(encode(with_key)) == with_key);
    with_key.challenge = Nonce{};
    REQUIRE_FALSE(decode_hello(encode(with_key)) == hello);
}

TEST_CASE("bytes that are no LinkHello of this version are recognised", "[frame]") {
    for (const std::size_t at : {0, 3, 4, 6, 40, 43}) {
        auto bytes = encode(LinkHello{});
        bytes[at] ^= std::byte{0x40};
        REQUIRE_FALSE(decode_hello(bytes).has_value());
    }
}

TEST_CASE("answers to a LinkHello come back, unknown ones do not", "[frame]") {
    for (const HelloAnswer answer :
         {HelloAnswer::welcome, HelloAnswer::other_round, HelloAnswer::other_lane, HelloAnswer::prove}) {
        REQUIRE(decode_hello_answer(encode(answer)) == answer);
    }
    REQUIRE_FALSE(decode_hello_answer(encode(static_cast<HelloAnswer>(10))).has_value());
    REQUIRE_FALSE(decode_hello_answer(std::array<std::byte, kHelloAnswerSize>{}).has_value());
}

TEST_CASE("a header carries the call", "[frame]") {
    const Call call{Operation::reduce_scatter, DataType::f64, ReduceOp::avg, -1, 1ULL << 40, 7,
                    Compression::bf16};
    REQUIRE(decode_header(encode_header(call)) == call);
    for (const std::size_t at : {0, 4, 5, 6, 7}) {
        auto bytes = encode_header(call);
        bytes[at] = std::byte{0xee};
        REQUIRE_FALSE(decode_header(bytes).has_value());
    }
}

TEST_CASE("a call is described as a user wrote it", "[frame]") {
    REQUIRE(describe({Operation::all_reduce, DataType::f32, ReduceOp::sum, -1, 1000, 7}) ==
            "all_reduce(sum, 1000 f32) as call 7");
    REQUIRE(describe({Operation::all_reduce, DataType::f32, ReduceOp::avg, -1, 9, 8, Compression::bf16}) ==
            "all_reduce(avg, 9 f32 sent as bf16) as call 8");
    REQUIRE(describe({Operation::broadcast, DataType::i64, ReduceOp::sum, 2, 3, 1}) ==
            "broadcast(3 i64 from rank 2) as call 1");
    REQUIRE(describe({Operation::reduce, DataType::f16, ReduceOp::max, 2, 3, 1}) ==
            "reduce(max, 3 f16 to rank 2) as call 1");
    REQUIRE(describe({Operation::scatter, DataType::u8, ReduceOp::sum, 0, 9, 2}) ==
            "scatter(9 u8 from rank 0) as call 2");
    REQUIRE(describe({Operation::all_to_all, DataType::u64, ReduceOp::sum, -1, 4, 3}) ==
            "all_to_all(4 u64) as call 3");
    REQUIRE(describe({Operation::parts, DataType::u64, ReduceOp::sum, static_cast<int>(Operation::all_to_all),
                      8, 4}) == "all_to_all(by parts) as call 4");
    REQUIRE(describe({Operation::split, DataType::u8, ReduceOp::sum, -1, 99, 5}) == "split() as call 5");
    REQUIRE(describe({Operation::barrier, DataType::f32, ReduceOp::sum, -1, 0, 4}) == "barrier() as call 4");
    REQUIRE(describe({Operation::recv, DataType::f32, ReduceOp::sum, 2, 3, 9}) == "recv(3 f32 from rank 2)");
}

TEST_CASE("notices come back whole, however the stream is cut", "[frame]") {
    std::string stream;
    for (const Notice& notice : some_notices()) stream += encode(notice);
    for (const std::size_t piece : {std::size_t{1}, std::size_t{3}, stream.size()}) {
        NoticeReader reader;
        std::vector<Notice> read;
        for (std::size_t at = 0; at < stream.size(); at += piece) {
            reader.add(bytes_of(stream).subspan(at, std::min(piece, stream.size() - at)));
            while (auto notice = reader.next()) read.push_back(*notice);
        }
        REQUIRE(read == some_notices());
        REQUIRE_FALSE(reader.broken());
    }
}

TEST_CASE("long texts and many culprits are cut to the limits of a notice", "[frame]") {
    Verdict verdict{CollectiveErrorCode::system, std::vector<int>(1000, 1), std::string(5000, 'x')};
    const std::string bytes = encode(verdict);
    REQUIRE(bytes.size() <= 4 + kMaxNoticePayload);
    NoticeReader reader;
    reader.add(bytes_of(bytes));
    const auto read = std::get<Verdict>(*reader.next());
    REQUIRE(read.culprits.size() == kMaxNoticeCulprits);
    REQUIRE(read.text.size() == kMaxNoticeText);
}

TEST_CASE("damaged notices break the stream and nothing else", "[frame]") {
    const auto seed = std::random_device{}();
    INFO("seed " << seed);
    std::mt19937 random(seed);
    for (int round = 0; round < 3000; ++round) {
        std::string stream;
        for (const Notice& notice : some_notices()) stream += encode(notice);
        stream[random() % stream.size()] = static_cast<char>(random());
        NoticeReader reader;
        reader.add(bytes_of(stream));
        std::size_t count = 0;
        while (reader.next()) ++count;
        REQUIRE(count <= stream.size() / 4);
    }
    NoticeReader reader;
    reader.add(bytes_of(std::string("\0\0\xff\xff", 4)));
    REQUIRE_FALSE(reader.next().has_value());
    REQUIRE(reader.broken());
}

TEST_CASE("the table of members comes back as it went", "[membership]") {
    const std::vector<Member> members{{{"10.0.0.1", 4000}, "gpu01/a", 4, 0xfedc'ba98'7654'3210},
                                      {{"fe80::1", 4001}, "gpu02/b", 2},
                                      {{"10.0.0.1", 9}, "gpu01/a", 3, 1}};
    Nonce nonce{};
    for (std::size_t i = 0; i < nonce.size(); ++i) nonce[i] = static_cast<std::uint8_t>(i * 17);
    auto membership = parse_table(table_text(nonce, members), 3);
    REQUIRE(membership.has_value());
    REQUIRE(membership->nonce == nonce);
    REQUIRE(membership->members == members);
    membership->rank = 2;
    REQUIRE(membership->local_rank() == 1);
    REQUIRE(membership->local_world_size() == 2);
    REQUIRE(membership->lanes() == 2);
    REQUIRE(membership->right() == 0);
    REQUIRE(membership->left() == 1);
}

TEST_CASE("what is no table of that many members is refused", "[membership]") {
    const std::vector<Member> members{{{"10.0.0.1", 4000}, "a"}, {{"10.0.0.2", 4000}, "b"}};
    const std::string table = table_text(Nonce{}, members);
    REQUIRE(parse_table(table, 2).has_value());
    REQUIRE_FALSE(parse_table(table, 3).has_value());
    REQUIRE_FALSE(parse_table(table.substr(1), 2).has_value());
    REQUIRE_FALSE(parse_table("", 2).has_value());
    const std::string life = " 00000000000000ff";
    REQUIRE(parse_member("10.0.0.1:4000 host 1" + life)->life == 255);
    for (const bool own : {false, true}) {
        for (const char* numbers : {"", "boot/ipc:[1]/0"}) {
            const Member member{{"10.0.0.1", 4000}, "host", 1, 255, own, numbers};
            REQUIRE(parse_member(to_string(member)) == member);
        }
    }
    for (const char* text : {"10.0.0.1:4000", "10.0.0.1:4000 host", "10.0.0.1:0 host 1",
                             "10.0.0.1:99999 host 1", "10.0.0.1:4000 host 0", "10.0.0.1:4000 host 5",
                             "10.0.0.1:4000 host 11", "10.0.0.1:4000  1", "10.0.0.1:4000 a host 1"}) {
        INFO(text);
        REQUIRE_FALSE(parse_member(text + life).has_value());
    }
    for (const char* text :
         {"", " ", " 0", " 0000000000000ff", " 00000000000000ff ", "  0000000000000ff", " 000000000000000ff",
          " 0x000000000000ff", " 00000000000000-1", " 00000000000000ff own ", " 00000000000000ff  own",
          " own", " 00000000000000ff a b"}) {
        INFO(text);
        REQUIRE_FALSE(parse_member("10.0.0.1:4000 host 1" + std::string(text)).has_value());
    }
}
