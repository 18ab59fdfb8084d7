// SPDX-License-Identifier: BSD-3-Clause
// Text of copies that run beside the threads, and of the barriers that count them.
#include <codegen/kernel_printer.h>
namespace nvfuser::codegen {

void KernelPrinter::bulkCopy(const BulkCopy* copy) {
  std::string at;
  for (const Val* v : copy->at()) {
    const std::string text = scalar(v).text;
    at += (at.empty() ? "" : ", ") + (v->isConst() ? text : "static_cast<int>(" + text + ")");
  }
  const std::string map = "&map" + std::to_string(copy->map());
  const std::string shared = address(copy->shared());
  if (!copy->isLoad()) {
    return line("nvf::copyTileToGlobal(" + map + ", {" + at + "}, " + shared + ");");
  }
  line("nvf::copyTileToShared(" + shared + ", " + map + ", {" + at + "}, " +
       full(copy->buffer(), copy->stage()) + ");");
}

void KernelPrinter::linearBulkCopy(const LinearBulkCopy* copy) {
  const std::string places = address(copy->to()) + ", " + address(copy->from()) + ", ";
  const std::string bytes = scalar(copy->bytes()).text;
  if (!copy->isLoad()) {
    return line("nvf::copyBulkToGlobal(" + places + bytes + ");");
  }
  const bool announces = kernel_->async_buffers[static_cast<size_t>(copy->buffer())].counts_by_copy;
  line((announces ? "nvf::announceBulkToShared(" : "nvf::copyBulkToShared(") + places + bytes +
       ", " + full(copy->buffer(), copy->stage()) + ");");
}

std::string KernelPrinter::barriersName(int buffer) {
  return "ring" + std::to_string(buffer);
}

std::string KernelPrinter::full(int buffer, const Val* stage) {
  return barriersName(buffer) + (stage->isZeroInt() ? "" : " + " + scalar(stage).operand());
}

std::string KernelPrinter::empty(int buffer, const Val* stage) {
  const int64_t stages = kernel_->async_buffers[static_cast<size_t>(buffer)].stages;
  return barriersName(buffer) + " + " + std::to_string(stages) +
         (stage->isZeroInt() ? "" : " + " + scalar(stage).operand());
}

void KernelPrinter::copyStep(const CopyStep* s) {
  using Part = CopyStep::Part;
  switch (s->part()) {
    case Part::Init:
      return initBarriers();
    case Part::WaitUntilEmpty:
      return line("nvf::waitForPhase(" + empty(s->buffer(), s->stage()) + ", " +
                  scalar(s->parity()).text + ");");
    case Part::Expect:
      return line("nvf::arriveExpecting(" + full(s->buffer(), s->stage()) + ", " +
                  scalar(kernel_->async_buffers[static_cast<size_t>(s->buffer())].bytes).text +
                  ");");
    case Part::Announced:
      return line("nvf::arrive(" + full(s->buffer(), s->stage()) + ");");
    case Part::WaitUntilFull:
      return line("nvf::waitForPhase(" + full(s->buffer(), s->stage()) + ", " +
                  scalar(s->parity()).text + ");");
    case Part::SetEmpty:
      return line("nvf::arrive(" + empty(s->buffer(), s->stage()) + ");");
    case Part::Commit:
      return line("nvf::commitCopies();");
    case Part::Wait:
      return line("nvf::waitForCopies<" + std::to_string(s->count) + ">();");
    case Part::Fence:
      return line("nvf::fenceAsyncProxy();");
    case Part::CommitStores:
      return line("nvf::commitBulkCopies();");
    case Part::WaitForReads:
      return line("nvf::waitForBulkReads<0>();");
    case Part::WaitForStores:
      return line("nvf::waitForBulkCopies<0>();");
    case Part::GiveRegisters:
      return line("nvf::giveRegisters<" + std::to_string(s->count) + ">();");
    case Part::TakeRegisters:
      return line("nvf::takeRegisters<" + std::to_string(s->count) + ">();");
  }
}

void KernelPrinter::initBarriers() {
  const auto& buffers = kernel_->async_buffers;
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (buffers[i].bulk) {
      line("nvf::MBarrier* const " + barriersName(static_cast<int>(i)) +
           " = reinterpret_cast<nvf::MBarrier*>(smem + " + scalar(buffers[i].barriers).operand() +
           ");");
    }
  }
  block("if (threadIdx.x == 0 && threadIdx.y == 0 && threadIdx.z == 0)", [&] {
    for (size_t i = 0; i < buffers.size(); ++i) {
      if (buffers[i].bulk) {
        initBarriersOf(barriersName(static_cast<int>(i)), buffers[i]);
      }
    }
    line("nvf::fenceMBarrierInit();");
  });
  line(kernel_->load_warps.exist() ? "nvf::syncAllThreads();" : "nvf::syncBlock();");
}

void KernelPrinter::initBarriersOf(const std::string& name, const AsyncBuffer& buffer) {
  const std::string fillers = buffer.counts_by_copy ? scalar(buffer.issuers).text : "1";
  if (!buffer.isCircular()) {
    return line("nvf::initMBarrier(" + name + ", " + fillers + ");");
  }
  const std::string stages = std::to_string(buffer.stages);
  block("for (int stage = 0; stage < " + stages + "; ++stage)", [&] {
    line("nvf::initMBarrier(" + name + " + stage, " + fillers + ");");
    line("nvf::initMBarrier(" + name + " + " + stages + " + stage, " + readingThreads() + ");");
  });
}

std::string KernelPrinter::readingThreads() const {
  if (kernel_->load_warps.exist()) {
    return std::to_string(kernel_->load_warps.compute_threads);
  }
  const std::optional<int64_t> threads = numThreads();
  return threads.has_value() ? std::to_string(*threads) : "blockDim.x * blockDim.y * blockDim.z";
}

} // namespace nvfuser::codegen
