#include <array>
#include <cstring>
#include <random>

#include "apps/ddpbench/bench_options.hpp"
#include "apps/ddpbench/benchmark.hpp"
#include "apps/ddpbench/operation.hpp"
#include "launcher/output/output_plan.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

using Words = std::vector<std::string>;

BenchOptions accepted(Words words) { return std::get<BenchOptions>(parse_bench_options(std::move(words))); }

std::string refused(Words words) {
    const auto end = std::get<BenchCommandEnd>(parse_bench_options(std::move(words)));
    CHECK(end.exit_code == 2);
    CHECK(end.text.find('\n') == std::string::npos);
    return end.text;
}

constexpr std::array kTypes{DataType::f32, DataType::f64, DataType::i32, DataType::i64, DataType::i8,
                            DataType::u8,  DataType::u32, DataType::u64, DataType::f16, DataType::bf16};
constexpr std::array kOps{ReduceOp::sum,        ReduceOp::prod, ReduceOp::min, ReduceOp::max, ReduceOp::avg,
                          ReduceOp::premul_sum, ReduceOp::band, ReduceOp::bor, ReduceOp::bxor};

std::vector<std::byte> elements(const Pattern& pattern, DataType type, std::size_t count, std::size_t first) {
    std::vector<std::byte> data(count * size_of(type));
    pattern.fill(data.data(), count, first);
    return data;
}

}  // namespace

TEST_CASE("ddpbench: sizes as texts") {
    CHECK(parse_size("8") == 8u);
    CHECK(parse_size("32K") == 32u << 10);
    CHECK(parse_size("1m") == 1u << 20);
    CHECK(parse_size("2G") == std::size_t{2} << 30);
    for (const char* bad : {"", "K", "1KB", "-1", "1.5M", "99999999999999999999", "17179869184G", "1T"}) {
        INFO(bad);
        CHECK_FALSE(parse_size(bad).has_value());
    }
}

TEST_CASE("ddpbench: the command line") {
    const BenchOptions options = accepted({"all_reduce_perf",
                                           "-b",
                                           "8",
                                           "-e",
                                           "1M",
                                           "-f",
                                           "4",
                                           "-n",
                                           "7",
                                           "-d",
                                           "half",
                                           "-o",
                                           "avg",
                                           "-r",
                                           "2",
                                           "-a",
                                           "3",
                                           "-I",
                                           "-J",
                                           "x.json",
                                           "-T",
                                           "9"});
    CHECK(options.operation->name == "all_reduce");
    CHECK(options.types == std::vector{DataType::f16});
    CHECK(options.ops == std::vector{ReduceOp::avg});
    CHECK(options.averaging == Averaging::slowest);
    CHECK(options.iterations == 7);
    CHECK(options.root == 2);
    CHECK(options.statistics);
    CHECK(options.json_file == "x.json");
    CHECK(options.timeout == std::chrono::seconds(9));
    CHECK(accepted({"broadcast", "-d", "all"}).types.size() == kTypes.size());
    CHECK(accepted({"all_reduce", "-o", "all"}).ops.size() == kOps.size());
    CHECK(refused({}).find("OPERATION") != std::string::npos);
    CHECK(refused({"all_reduze"}).find("all_reduze") != std::string::npos);
    CHECK(refused({"all_reduce", "-b", "8X"}).find("8X") != std::string::npos);
    CHECK(refused({"all_reduce", "-b", "2M", "-e", "1M"}).find("-b") != std::string::npos);
    CHECK(refused({"all_reduce", "-n", "0"}).find("-n") != std::string::npos);
    CHECK(refused({"all_reduce", "-f", "1"}).find("-f") != std::string::npos);
    CHECK(refused({"all_reduce", "-d", "fp8"}).find("fp8") != std::string::npos);
    CHECK(refused({"all_reduce", "-o", "xor"}).find("xor") != std::string::npos);
    CHECK(refused({"all_reduce", "-b", "1", "-i", "1"}).find("too many sizes") != std::string::npos);
    CHECK(refused({"all_reduce", "--zzz"}).find("--zzz") != std::string::npos);
    CHECK(std::get<BenchCommandEnd>(parse_bench_options({"--help"})).exit_code == 0);
}

TEST_CASE("ddpbench: from the smallest size to the largest") {
    using Sizes = std::vector<std::size_t>;
    CHECK(sizes_of(accepted({"all_reduce", "-b", "8", "-e", "100", "-f", "2"})) == Sizes{8, 16, 32, 64});
    CHECK(sizes_of(accepted({"all_reduce", "-b", "8", "-e", "20", "-i", "6"})) == Sizes{8, 14, 20});
    CHECK(sizes_of(accepted({"all_reduce"})) == Sizes{32u << 20});
}

TEST_CASE("ddpbench: wrong elements are counted, each, in every type") {
    std::mt19937 random(4711);
    for (DataType type : kTypes) {
        INFO(name_of(type));
        const Pattern pattern = input_pattern(type, 3, 5);
        for (std::size_t first : {0u, 1u, 60u, 1000u}) {
            std::vector<std::byte> data = elements(pattern, type, 300, first);
            CHECK(pattern.count_wrong(data.data(), 300, first) == 0);
            CHECK(pattern.count_wrong(data.data(), 300, first + 1) > 60);
            CHECK(input_pattern(type, 4, 5).count_wrong(data.data(), 300, first) > 60);
            CHECK(input_pattern(type, 3, 6).count_wrong(data.data(), 300, first) > 60);
            const std::size_t at = random() % 300;
            // Zero is no value of any input.
            std::fill_n(data.data() + at * size_of(type), size_of(type), std::byte{0});
            CHECK(pattern.count_wrong(data.data(), 300, first) == 1);
            std::fill_n(data.data() + at * size_of(type), size_of(type), std::byte{0xff});  // NaN, or -1
            CHECK(pattern.count_wrong(data.data(), 300, first) == 1);
        }
    }
}

TEST_CASE("ddpbench: the right result is known without communication") {
    for (DataType type : kTypes) {
        for (ReduceOp op : kOps) {
            if (!is_defined(op, type)) continue;
            INFO(name_of(op) << " " << name_of(type));
            // Of one rank: its own values, but for the scalar.
            Reduction reduction(op);
            const auto own = elements(input_pattern(type, 0, 2), type, 100, 0);
            CHECK(reduced_pattern(type, reduction, 1, 2).count_wrong(own.data(), 100, 0) == 0);
            // Of three ranks: not any one's.
            if (op == ReduceOp::sum)
                CHECK(reduced_pattern(type, reduction, 3, 2).count_wrong(own.data(), 100, 0) == 100);
        }
    }
    // By hand: three ranks' ones and twos.
    const auto sum =
        elements(reduced_pattern(DataType::i32, ReduceOp::sum, 3, 0), DataType::i32, kPatternLength, 0);
    for (std::size_t i = 0; i < kPatternLength; ++i) {
        int expected = 0;
        for (int rank = 0; rank < 3; ++rank) {
            std::int32_t value = 0;
            input_pattern(DataType::i32, rank, 0).fill(&value, 1, i);
            CHECK((value == 1 || value == 2));
            expected += value;
        }
        CHECK(std::memcmp(sum.data() + i * 4, &expected, 4) == 0);
    }
}

TEST_CASE("ddpbench: statistics") {
    const Statistics one = statistics_of({3});
    CHECK((one.median == 3 && one.min == 3 && one.max == 3 && one.p99 == 3 && one.variation_percent == 0));
    const Statistics four = statistics_of({4, 1, 3, 2});
    CHECK((four.median == 2.5 && four.min == 1 && four.max == 4 && four.p99 == 4));
    std::vector<double> hundred(100, 1.0);
    hundred[7] = 50;
    CHECK(statistics_of(hundred).p99 == 1);
    CHECK(statistics_of(hundred).variation_percent > 100);
}

TEST_CASE("ddpbench: a row has nccl-tests' columns") {
    BenchRow row{.bytes = 1048576, .count = 262144, .type = "float", .op = "sum"};
    row.in_place = Measurement{{.median = 123.46}, 8.494, 8.494, 0};
    CHECK(table_line(row, false) ==
          "     1048576        262144     float     sum      -1      N/A     N/A     N/A    N/A    123.5    "
          "8.49    "
          "8.49      0\n");
    row.out_of_place = row.in_place;
    row.out_of_place->wrong = 2;
    const BenchTotals totals = totals_of({row, row});
    CHECK(totals.wrong == 4);
    CHECK(totals.mean_bus_bandwidth == Approx(8.494));
    CHECK(table_foot(totals).find("Out of bounds values : 4 FAILED") != std::string::npos);
    CHECK(bench_json("all_reduce", "cpu", 2, {row}).find("\"wrong\":2") != std::string::npos);
}

}  // namespace ddprun
