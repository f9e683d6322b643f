// train_digits_gpu: train_digits' training on GPUs, one for each worker, with gradients summed by NCCL.
//
//   ddprun --nproc-per-node 2 train_digits_gpu --data apps/data/digits.csv
//
// The flags are train_digits', but for --save and --evaluate. A second communicator, of the CPU's backend,
// compares the ranks. Sums are f32, so their last bits depend on the number of ranks, unlike those of
// train_digits.
//
// Exit codes: as train_digits'.
#include <cmath>
#include <iostream>
#include <stdexcept>

#include "apps/train_digits/digits_data.hpp"
#include "apps/train_digits/files.hpp"
#include "apps/train_digits/fingerprint.hpp"
#include "apps/train_digits/options.hpp"
#include "apps/train_digits/progress.hpp"
#include "apps/train_digits/trainer.hpp"
#include "apps/train_digits_gpu/gpu_replica.hpp"
#include "collectives/communicator.hpp"
#include "collectives/nccl/nccl_join.hpp"

namespace ddprun::inline app {
namespace {

std::shared_ptr<const CudaPrimaryContext> context_of(const Communicator& communicator) {
    CommunicatorOptions options;
    options.backend = BackendChoice::nccl;
    options.device = communicator.device();
    const auto settings = read_nccl_settings(current_environment(), options, communicator.local_rank());
    return std::make_shared<CudaPrimaryContext>(CudaDriver::open(settings->cuda_library), settings->device);
}

std::vector<float> train_on_gpu(Communicator& gpu, const Digits& digits, const Options& options) {
    const TrainingPlan& plan = options.plan;
    GpuReplica replica(digits, plan, gpu.rank(), gpu.world_size(), context_of(gpu));
    gpu.broadcast(replica.device_parameters(), 0);
    const bool shows = gpu.rank() == 0 && !options.quiet;
    Progress progress(std::cout, shows ? ProgressStyle::lines : ProgressStyle::none, plan.epochs,
                      replica.steps_per_epoch());
    for (int epoch = 0; epoch < plan.epochs; ++epoch) {
        replica.begin_epoch(epoch);
        for (std::size_t step = 0; step < replica.steps_per_epoch(); ++step) {
            replica.enqueue_compute(step);
            const Work work = gpu.async(replica.stream()).all_reduce(replica.sums(), ReduceOp::sum);
            replica.enqueue_apply(step);
            work.wait();
            progress.step_done(epoch, step);
        }
        const EpochResult result = replica.epoch_result();
        progress.epoch_done(epoch, result);
        if (!std::isfinite(result.loss))
            throw std::runtime_error("the loss is no longer a number: try a smaller --lr");
    }
    return replica.parameters();
}

int run(const Options& options, int&) {
    if (!options.save.empty() || !options.evaluate.empty()) {
        throw InputError("--save and --evaluate are train_digits' own");
    }
    const DigitsSplit digits = split_digits(read_digits(options.data));
    CommunicatorOptions of_cpu;
    of_cpu.backend = BackendChoice::cpu;
    CommunicatorOptions of_gpu;
    of_gpu.backend = BackendChoice::nccl;
    Communicator cpu = Communicator::from_env(of_cpu);
    Communicator gpu = Communicator::from_env(of_gpu);
    require_agreement(cpu, fingerprint_of(digits), "the images (--data) are");
    require_agreement(cpu, fingerprint_of(options.plan), "the training flags are");
    const auto started = std::chrono::steady_clock::now();
    const std::vector<float> parameters = train_on_gpu(gpu, digits.train, options);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - started;
    const std::uint64_t fingerprint = fingerprint_of(std::span(parameters));
    require_agreement(cpu, fingerprint, "the trained parameters are");
    const auto correct = count_correct_together(cpu, shape_of(options.plan), parameters, digits.test);
    if (cpu.rank() == 0)
        std::cout << result_text(took, cpu.world_size(), fingerprint)
                  << accuracy_text(correct, digits.test.size());
    return 0;
}

}  // namespace
}  // namespace ddprun::inline app

int main(int argc, char** argv) {
    return ddprun::run_with_options("train_digits_gpu", {argv + 1, argv + argc}, ddprun::run);
}
